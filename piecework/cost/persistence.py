"""Write the cost counters of jobs to the table, rarely and beside the work.

The counters of a job wait for 200 requests, for five minutes, or for half a minute
without a request. They wait no longer than the job or the process. So they cost one
request in two hundred. The waiting counters of a killed worker are lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from piecework.cost.attribution import WHOLE, Owner
from piecework.cost.meter import Account, Actor, CostMeter
from piecework.domain.refs import JobRef
from piecework.telemetry.emit import emit, quiet_log

#: Requests after which the counters of a job are written.
ENOUGH = 200
#: Seconds without a request after which they are written.
QUIET_S = 30.0
#: Seconds after which they are written in any case.
OLDEST_S = 300.0
#: Seconds between two checks of the waiting counters.
POLL_S = 5.0
#: Seconds that a stopping process spends on the last writes.
LAST_S = 2.0


class Costs(Protocol):
    """The stored counters."""

    async def add(self, job: JobRef, actor: str, counts: Mapping[str, int]) -> None:
        """Add counts to the counters of a job."""


@dataclass(slots=True)
class Wait:
    """Since when the counters of a job wait, and with how many requests."""

    since: float
    requests: int
    changed: float


def due(account: Account, wait: Wait, now: float) -> bool:
    """Return whether a job's counts are due to be written."""
    return (
        account.ended
        or account.requests >= ENOUGH
        or now - wait.changed >= QUIET_S
        or now - wait.since >= OLDEST_S
    )


@asynccontextmanager
async def keeping(keeper: Keeper) -> AsyncIterator[None]:
    """Write counters while the context is open, and the rest at its end."""
    stop = asyncio.Event()
    looking = asyncio.create_task(keeper.run(stop))
    try:
        yield
    finally:
        stop.set()
        # A write in progress has taken its counters already, so it may finish.
        await asyncio.wait([looking], timeout=LAST_S)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        await keeper.write_rest()
        if keeper.dropped:
            emit(quiet_log(), "cost.lost", count=keeper.dropped)


@dataclass(slots=True)
class Keeper:
    """Writes the counters of a meter.

    Attributes:
        dropped: Writes that failed or were not made. Their counts are lost; the next
            write records the number.
    """

    meter: CostMeter
    costs: Costs
    dropped: int = 0
    _waits: dict[tuple[Actor, Owner], Wait] = field(default_factory=dict)

    async def run(self, stop: asyncio.Event) -> None:
        """Check the waiting counters at an interval, until `stop` is set."""
        now = asyncio.get_running_loop().time
        while not stop.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await stop.wait()
                    return
            await self.write_due(now())

    async def write_due(self, now: float) -> None:
        """Write the counters that are due."""
        for place, account in list(self.meter.accounts.items()):
            if place[1] is None:
                continue
            wait = self._waits.get(place)
            if wait is None:
                wait = self._waits[place] = Wait(now, account.requests, now)
            if wait.requests != account.requests:
                wait.requests, wait.changed = account.requests, now
            if due(account, wait, now):
                await self._write(place)

    async def write_rest(self) -> None:
        """Write all waiting counters within `LAST_S`."""
        left = [place for place in self.meter.accounts if place[1] is not None]
        try:
            async with asyncio.timeout(LAST_S):
                while left:
                    await self._write(left.pop(0))
        except TimeoutError:
            self.dropped += sum(bool(self.meter.close(place)) for place in left)

    async def _write(self, place: tuple[Actor, Owner]) -> None:
        """Write the counters of a job with the cost of the write; drop failures."""
        actor, owner = place
        if owner is None:
            return
        self._waits.pop(place, None)
        counts = self.meter.close(place)
        if not counts:
            return
        for measure in ("requests", "units"):
            name = f"op__UpdateItem__{measure}"
            counts[name] = counts.get(name, 0) + WHOLE
        try:
            await self.costs.add(owner, actor, counts)
        except BaseException as error:
            self.dropped += 1
            self.meter.account_of(place).counts["lost_writes"] += 1
            if not isinstance(error, Exception):  # it is cut off
                raise
