"""Find the rate that a dependency accepts from its refusals. Pure: time is passed in.

    refused with 429   the rate falls to 90 %; once for the calls of one round trip
    no refusal         the rate grows back to where it was refused, stays near it for
                       some seconds, then grows faster

The rate is a function of the last refusal and of the time. So growth costs no write,
and all workers that read the same row compute the same rate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from piecework.domain.moments import MICROS

MINUTE: Final = 60 * MICROS
#: The rate after a refusal, as a share of the refused rate.
CUT: Final = 0.9
#: Seconds until the rate has grown back to the refused one.
RECOVERY_S: Final = 9.0
#: Seconds in which the first rate doubles: one worker knows only its own share.
DOUBLING_S: Final = 3.0
#: The first rate, in requests a minute, if no limit is declared.
FIRST_RATE: Final = 60
#: The smallest share of a refused rate that the next pace starts from.
LEAST_SHARE: Final = 0.5
#: The rate in shares of the refused one at which it is not a limit any more.
LIFTED: Final = 8.0
#: Seconds for which a refusal may pause the fleet.
MAX_PAUSE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Pace:
    """The rate of a fleet's requests after a refusal.

    Attributes:
        refused_rate: Requests in 1,000 minutes that were refused; 0: no refusal yet.
        refused_at: The time of the refusal.
        paused_until: The time before which the dependency wants no request.
        doubles: Whether no rate that the fleet reached was ever refused.
    """

    refused_rate: int = 0
    refused_at: int = 0
    paused_until: int = 0
    doubles: bool = False

    def growth(self, now: int) -> float:
        """Return the rate as a share of the refused one."""
        seconds = max(0, now - self.refused_at) / MICROS
        if self.doubles:
            return CUT * float(2.0 ** min(seconds / DOUBLING_S, 60.0))
        return 1.0 + (1.0 - CUT) * ((seconds - RECOVERY_S) / RECOVERY_S) ** 3

    def is_active(self, now: int) -> bool:
        """Return whether the rate is a limit."""
        if not self.refused_rate:
            return now < self.paused_until
        return self.doubles or self.growth(now) < LIFTED

    def rate(self, now: int) -> float:
        """Return the requests in a minute; infinite without a limit."""
        if not self.refused_rate or not self.is_active(now):
            return float("inf")
        return self.refused_rate / 1_000 * self.growth(now)

    def interval(self, now: int) -> int:
        """Return the microseconds from one start to the next."""
        return int(MINUTE / self.rate(now))


UNPACED: Final = Pace()


def after_refusal(
    pace: Pace,
    *,
    started: int,
    now: int,
    retry_after_s: float,
    accepted: float,
    limit: int | None,
    delay: int,
) -> Pace:
    """Return the pace after the dependency has refused a call with 429.

    `started`: when the call started. `accepted`: the share of the last calls that were
    not refused. `limit`: the declared requests in a minute. `delay`: microseconds from
    a change of the pace to the first start that follows it. A call that started before
    says nothing new.
    """
    pause = now + round(min(max(retry_after_s, 0.0), MAX_PAUSE_S) * MICROS)
    pause = max(pause, pace.paused_until)
    if not pace.refused_rate:
        if limit is not None:
            return Pace(limit * 1_000, pause, pause)
        return Pace(FIRST_RATE * 1_000, pause, pause, doubles=True)
    if started < pace.refused_at + delay:
        return replace(pace, paused_until=pause)
    rate = pace.rate(started) * 1_000
    refused = pace.refused_rate if rate == float("inf") else rate
    share = min(1.0, max(LEAST_SHARE, accepted))
    return Pace(max(1_000, round(refused * share)), pause, pause)
