"""Decide when a task requests ECS protection, and when it gives it back: pure.

A task that always has work would never give protection back, and a deployment would
wait forever. So the task pauses its intake now and then until it has no chunk. It is
unprotected for a moment only then, when ECS cannot interrupt any work.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

#: Minutes of one protection. A frozen worker is not protected for longer.
MINUTES = 10
#: Seconds before its expiry at which protection is renewed.
RENEW_AHEAD_S = 300.0
#: Idle seconds after which protection is given back.
IDLE_S = 30.0
#: Seconds of continuous protection before a pause. A deployment waits at most that long
#: plus the longest chunk. A shorter time would cost more unprotected gaps, and more
#: slots that stay empty until the worker's last chunk has ended.
PAUSE_AFTER_S = 3600.0
#: Fraction by which the pause may come earlier. Otherwise tasks that were launched
#: together would all pause at once.
JITTER = 0.25
#: Idle seconds of a pause before protection is given back. By then the last chunk is
#: counted (`ack_batch_s`), and a join that this starts is claimed.
PAUSE_IDLE_S = 10.0
#: Unprotected seconds, in which ECS can end the task.
UNPROTECTED_S = 60.0
#: Longest delay in seconds between two requests after a refusal.
MAX_RETRY_DELAY_S = 60.0


@dataclass(slots=True)
class ProtectionPolicy:
    """Decides which protection to request, and when.

    Attributes:
        pause_after_s: Seconds of continuous protection until a pause.
        protected_until: When the current protection expires.
        protected_since: When it started; a renewal does not change it.
        busy_at: When the worker last had work.
        gap_ends_at: When the unprotected gap after a pause ends; 0: there is no gap.
        retry_at: Before this moment a refused request is not repeated.
        refusals: Refusals since the last grant.
    """

    pause_after_s: float
    protected_until: float = 0.0
    protected_since: float = 0.0
    busy_at: float = 0.0
    gap_ends_at: float = 0.0
    retry_at: float = 0.0
    refusals: int = 0

    def must_pause(self, now: float) -> bool:
        """Return whether to pause the intake: before the gap, and in it."""
        is_due = (
            now < self.protected_until
            and now - self.protected_since >= self.pause_after_s
        )
        return is_due or self.gap_ends_at > 0.0

    def desired_change(self, now: float, *, busy: bool) -> bool | None:
        """Return True to request protection, False to end it, None for no change."""
        if 0.0 < self.gap_ends_at <= now:
            self.gap_ends_at, busy = 0.0, True  # protected before it takes anything
        self.busy_at = now if busy else self.busy_at
        if now < max(self.gap_ends_at, self.retry_at):
            return None
        if now >= self.protected_until:
            return True if busy else None
        if now - self.busy_at >= (PAUSE_IDLE_S if self.must_pause(now) else IDLE_S):
            return False
        return True if busy and self.protected_until - now <= RENEW_AHEAD_S else None

    def on_granted(self, now: float, *, on: bool) -> None:
        """Record that ECS granted a request."""
        self.refusals = 0
        if on:
            self.protected_since = (
                self.protected_since if now < self.protected_until else now
            )
            self.protected_until = now + MINUTES * 60
            return
        self.gap_ends_at = now + UNPROTECTED_S if self.must_pause(now) else 0.0
        self.protected_until = 0.0

    def on_refused(self, now: float) -> bool:
        """Record a refusal; return whether it is the first in a row."""
        self.refusals += 1
        self.retry_at = now + min(MAX_RETRY_DELAY_S, 2.0 * self.refusals)
        return self.refusals == 1


def draw_pause_interval(rng: Random) -> float:
    """Draw the seconds of continuous protection until a pause."""
    return PAUSE_AFTER_S * rng.uniform(1.0 - JITTER, 1.0)
