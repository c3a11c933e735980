"""Divide the calls in flight that a limit allows among workers. Pure: no clock.

Each worker has a share with an expiry, and renews it while it makes calls. A share that
was not renewed is free again: its worker died. No sum of shares exceeds the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from piecework.domain.moments import MICROS

#: How long a share lasts, and after how long a worker renews it.
SHARE_LASTS: Final = 10 * MICROS
RENEW_AFTER: Final = 4 * MICROS
#: How long after its end a share is free: the clocks of workers differ.
SHARE_SKEW: Final = MICROS // 2


@dataclass(frozen=True, slots=True)
class Share:
    """The calls that one worker may have in flight.

    Attributes:
        calls: How many.
        wants: Further calls that it would make.
        until: When the share ends, in microseconds.
    """

    calls: int = 0
    wants: int = 0
    until: int = 0


NO_SHARE: Final = Share()


def divide(
    shares: Mapping[str, Share],
    worker: str,
    *,
    wanted: int,
    in_flight: int,
    limit: int,
    now: int,
) -> tuple[dict[str, Share], int]:
    """Return the shares after a worker has asked for `wanted` calls in flight.

    Another worker may have less than an equal part and want more. Then this one keeps
    no more than an equal part, except for calls that are in flight already. The second
    value is the number of calls in flight up to which the worker may start others.
    """
    mine = shares.get(worker, NO_SHARE)
    others = {
        name: share
        for name, share in shares.items()
        if name != worker and share.until + SHARE_SKEW > now
    }
    asking = [share for share in others.values() if share.calls or share.wants]
    equal = max(1, limit // (1 + len(asking)))
    is_short = any(share.wants and share.calls < equal for share in asking)
    free = limit - sum(share.calls for share in others.values())
    kept = min(in_flight, mine.calls) if mine.until > now else 0
    most = max(0, min(min(wanted, equal) if is_short else wanted, free))
    calls = max(most, kept)
    if calls or wanted:
        others[worker] = Share(calls, max(0, wanted - calls), now + SHARE_LASTS)
    return others, most
