"""What one process may use at once of a number that the fleet divides.

    calls in flight   a place is taken from the start of a call to its end
    turns             a place is taken until `lasts_s` after its request was sent

Each process keeps to its own share by its own clock. So a request that goes out late
moves the next use of its place, and no request of another worker.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final

from piecework.domain.moments import MICROS
from piecework.resilience.limits import LATEST_S
from piecework.resilience.shares import (
    NO_SHARE,
    RENEW_AFTER,
    SHARE_LASTS,
    Share,
    divide,
)

#: Seconds for which a turn stays taken after its request was sent. The network may
#: deliver one request by so much later than the next one of its turn.
TURN_S: Final = 1.03
#: What is left of a share when its worker renews it.
LEFT: Final = SHARE_LASTS - RENEW_AFTER
#: The seconds of spaces between requests that a process may catch up at once.
CATCH_UP_S: Final = 0.01


@dataclass(slots=True)
class Portion:
    """The places that one process may take.

    Attributes:
        lasts_s: Seconds for which a place stays taken after its request was sent; 0: a
            place is free when its call has ended.
        share: The stored share of this process.
        others_want: Whether another process would use more than its share.
        most: How many places may be taken up to now.
        peak: The most that were wanted at once since the last reservation.
        taken: The places of calls that have not been sent, or not ended.
        ends: The loop times at which the places of sent requests are free again.
        next_at: The loop time of the next request: they do not go out together.
    """

    lasts_s: float = 0.0
    share: Share = NO_SHARE
    others_want: bool = False
    most: int = 0
    peak: int = 0
    taken: int = 0
    ends: deque[float] = field(default_factory=deque)
    next_at: float = 0.0

    def in_use(self) -> int:
        """Return how many places are taken."""
        now = loop_time()
        while self.ends and self.ends[0] <= now:
            self.ends.popleft()
        return self.taken + len(self.ends)

    def free(self, limit: int | None, now: int) -> float:
        """Return how many further places may be taken; `now`: by the fleet's clock."""
        if limit is None:
            return inf
        margin = (self.lasts_s + LATEST_S) * MICROS if self.lasts_s else 0.0
        if now + margin >= self.share.until:
            return 0
        return max(0, min(self.most, limit) - self.in_use())

    def may_take(self, limit: int | None, now: int) -> bool:
        """Return whether one more place may be taken."""
        spaced = limit is None or loop_time() >= self.next_at
        return spaced and self.free(limit, now) > 0

    def take(self) -> None:
        """Take a place for a call."""
        self.taken += 1
        space = self.lasts_s / (2 * self.most) if self.most else 0.0
        self.next_at = max(self.next_at, loop_time() - CATCH_UP_S) + space

    def note_sent(self) -> None:
        """Note that the request of a place is sent now."""
        self.taken -= 1
        self.ends.append(loop_time() + self.lasts_s)

    def release(self) -> None:
        """Free the place of a call that has ended, or was not sent."""
        self.taken -= 1

    def next_change_s(self) -> float:
        """Return the seconds until a place is free, or until the next request."""
        now = loop_time()
        self.in_use()
        times = [self.next_at, *itertools.islice(self.ends, 1)]
        return min((each - now for each in times if each > now), default=inf)

    def wants_write(self, waiting: int, now: int) -> bool:
        """Return whether the share has to be renewed, changed or returned."""
        used, calls = self.in_use() + waiting, self.share.calls
        renews = calls > 0 and self.share.until - now <= LEFT
        returns = used < calls if self._gives_way() else calls > 0 and not used
        return renews or returns or used > calls

    def _gives_way(self) -> bool:
        """Return whether a turn without a call goes to another process at once."""
        return self.lasts_s > 0 and self.others_want

    def divided(
        self,
        shares: Mapping[str, Share],
        worker: str,
        *,
        waiting: int,
        limit: int,
        now: int,
    ) -> tuple[Mapping[str, Share], int]:
        """Return the shares of the fleet with what this process wants, and its most.

        Until the answer of the write it takes no place above the new share: another
        worker may have it.
        """
        used = self.in_use()
        shares, most = divide(
            shares,
            worker,
            wanted=used + waiting
            if self._gives_way()
            else max(self.peak, used + waiting),
            in_flight=used,
            limit=limit,
            now=now,
        )
        self.most = min(self.most, most)
        return shares, most


@dataclass(slots=True)
class Turn:
    """The place of one request; it stays taken for a time once that was sent.

    Attributes:
        on_change: Is called when the end of that time is known.
    """

    turns: Portion
    on_change: Callable[[], None]
    is_sent: bool = False

    def note_sent(self) -> None:
        """Note that the request is sent in this round of the event loop.

        The time counts from the end of the round. So it does not matter how long the
        process was without a processor before the request was written.
        """
        self.is_sent = True
        asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self.turns.note_sent()
        self.on_change()

    def give_back(self) -> None:
        """Free the place of a request that was not sent."""
        if not self.is_sent:
            self.turns.release()


def loop_time() -> float:
    """Return the time of the event loop, in seconds."""
    return asyncio.get_running_loop().time()
