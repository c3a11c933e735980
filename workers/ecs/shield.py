"""When a task asks ECS for protection, and when it gives it back: pure.

A task that always has work would never give it back, and a deployment would wait for
ever. So it takes a breath now and then: nothing new, until nothing is in hand; only
then does it go without for a moment, and there is nothing that could be cut off.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

#: Minutes that one protection lasts. A frozen worker is protected for no longer.
MINUTES = 10
#: Seconds before its end at which it is prolonged.
RENEW_AHEAD_S = 300.0
#: Seconds with nothing in hand after which it is given back.
IDLE_S = 30.0
#: Seconds of protection without a break, then comes the breath. A deployment waits for
#: so long and the longest chunk. More often would cost more: the gap, and slots that
#: are empty until the worker's last chunk has ended.
PAUSE_AFTER_S = 3600.0
#: Share of that by which it may come sooner: tasks that were launched together would
#: all take nothing at once otherwise.
JITTER = 0.25
#: Seconds with nothing in hand after which a breath gives it back: what ended last has
#: been counted by then (`ack_batch_s`), and a join that this begins is in hand.
PAUSE_IDLE_S = 10.0
#: Seconds without it, in which ECS can end the task.
UNPROTECTED_S = 60.0
#: The most seconds between two tries after a refusal.
MAX_RETRY_DELAY_S = 60.0


@dataclass(slots=True)
class ProtectionPolicy:
    """What to ask for, and when.

    Attributes:
        longest_s: Seconds of protection until a breath.
        until: When the protection that we have ends.
        since: When it began; prolonging it changes nothing.
        resumes_at: When the gap after a breath ends; 0: there is none.
    """

    pause_after_s: float
    protected_until: float = 0.0
    protected_since: float = 0.0
    busy_at: float = 0.0
    gap_ends_at: float = 0.0
    retry_at: float = 0.0
    refusals: int = 0

    def must_pause(self, now: float) -> bool:
        """Say whether to take nothing new: until nothing is in hand, and in the gap."""
        over_long = (
            now < self.protected_until
            and now - self.protected_since >= self.pause_after_s
        )
        return over_long or self.gap_ends_at > 0.0

    def desired_change(self, now: float, *, busy: bool) -> bool | None:
        """Return whether to ask for protection or for its end; None: for nothing."""
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
        """Note that ECS did what it was asked for."""
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
        """Note that it did not; say whether this is the first time in a row."""
        self.refusals += 1
        self.retry_at = now + min(MAX_RETRY_DELAY_S, 2.0 * self.refusals)
        return self.refusals == 1


def draw_pause_interval(rng: Random) -> float:
    """Draw for how long a task is protected until it takes a breath."""
    return PAUSE_AFTER_S * rng.uniform(1.0 - JITTER, 1.0)
