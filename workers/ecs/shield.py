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
AHEAD_S = 300.0
#: Seconds with nothing in hand after which it is given back.
IDLE_S = 30.0
#: Seconds of protection without a break, then comes the breath. A deployment waits for
#: so long and the longest chunk. More often would cost more: the gap, and slots that
#: are empty until the worker's last chunk has ended.
LONGEST_S = 3600.0
#: Share of that by which it may come sooner: tasks that were launched together would
#: all take nothing at once otherwise.
SPREAD = 0.25
#: Seconds with nothing in hand after which a breath gives it back: what ended last has
#: been counted by then (`ack_batch_s`), and a join that this begins is in hand.
STILL_S = 10.0
#: Seconds without it, in which ECS can end the task.
GAP_S = 60.0
#: The most seconds between two tries after a refusal.
LONGEST_PAUSE_S = 60.0


@dataclass(slots=True)
class ProtectionPolicy:
    """What to ask for, and when.

    Attributes:
        longest_s: Seconds of protection until a breath.
        until: When the protection that we have ends.
        since: When it began; prolonging it changes nothing.
        resumes_at: When the gap after a breath ends; 0: there is none.
    """

    longest_s: float
    until: float = 0.0
    since: float = 0.0
    worked_at: float = 0.0
    resumes_at: float = 0.0
    quiet_until: float = 0.0
    refusals: int = 0

    def breath(self, now: float) -> bool:
        """Say whether to take nothing new: until nothing is in hand, and in the gap."""
        over_long = now < self.until and now - self.since >= self.longest_s
        return over_long or self.resumes_at > 0.0

    def wish(self, now: float, *, busy: bool) -> bool | None:
        """Return whether to ask for protection or for its end; None: for nothing."""
        if 0.0 < self.resumes_at <= now:
            self.resumes_at, busy = 0.0, True  # protected before it takes anything
        self.worked_at = now if busy else self.worked_at
        if now < max(self.resumes_at, self.quiet_until):
            return None
        if now >= self.until:
            return True if busy else None
        if now - self.worked_at >= (STILL_S if self.breath(now) else IDLE_S):
            return False
        return True if busy and self.until - now <= AHEAD_S else None

    def granted(self, now: float, *, on: bool) -> None:
        """Note that ECS did what it was asked for."""
        self.refusals = 0
        if on:
            self.since = self.since if now < self.until else now
            self.until = now + MINUTES * 60
            return
        self.resumes_at = now + GAP_S if self.breath(now) else 0.0
        self.until = 0.0

    def refused(self, now: float) -> bool:
        """Note that it did not; say whether this is the first time in a row."""
        self.refusals += 1
        self.quiet_until = now + min(LONGEST_PAUSE_S, 2.0 * self.refusals)
        return self.refusals == 1


def until_breath(rng: Random) -> float:
    """Draw for how long a task is protected until it takes a breath."""
    return LONGEST_S * rng.uniform(1.0 - SPREAD, 1.0)
