"""Write counts down: rarely, in one addition a job, and never in the way of the work.

A job's counts wait until they are worth a request of their own: 200 requests, five
minutes, half a minute without anything new, or the end of the job or of the process.
So they cost half a request in a hundred, and a killed worker takes those with it that
were waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from piecework.cost.attribution import WHOLE, Owner
from piecework.cost.meter import Account, Actor, CostMeter
from piecework.domain.model import JobRef
from piecework.telemetry.emit import emit, quiet_log

#: Requests that are worth one more.
ENOUGH = 200
#: Seconds without another request after which a job counts as left alone.
QUIET_S = 30.0
#: Seconds that a count waits at the most.
OLDEST_S = 300.0
#: Seconds between two looks at what waits.
LOOK_S = 5.0
#: Seconds that a stopping process spends on it.
LAST_S = 2.0


class Costs(Protocol):
    """Where counts are kept."""

    async def add(self, job: JobRef, actor: str, counts: Mapping[str, int]) -> None:
        """Add counts to those of a job."""


@dataclass(slots=True)
class Wait:
    """How long a job's counts have waited: since when, and for how many requests."""

    since: float
    requests: int
    changed: float


def due(account: Account, wait: Wait, now: float) -> bool:
    """Say whether a job's counts have waited long enough."""
    return (
        account.ended
        or account.requests >= ENOUGH
        or now - wait.changed >= QUIET_S
        or now - wait.since >= OLDEST_S
    )


@asynccontextmanager
async def keeping(keeper: Keeper) -> AsyncIterator[None]:
    """Write counts down as long as this lasts, and what is left at its end."""
    stop = asyncio.Event()
    looking = asyncio.create_task(keeper.run(stop))
    try:
        yield
    finally:
        stop.set()
        # A write under way has taken its counts already: it is let finish.
        await asyncio.wait([looking], timeout=LAST_S)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        await keeper.last()
        if keeper.dropped:
            emit(quiet_log(), "cost.lost", count=keeper.dropped)


@dataclass(slots=True)
class Keeper:
    """Writes down what a meter has counted.

    Attributes:
        dropped: Writes that failed or were not made: their counts are lost, and the
            next one says so.
    """

    meter: CostMeter
    costs: Costs
    dropped: int = 0
    _waits: dict[tuple[Actor, Owner], Wait] = field(default_factory=dict)

    async def run(self, stop: asyncio.Event) -> None:
        """Look at what waits, until told to stop."""
        now = asyncio.get_running_loop().time
        while not stop.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await stop.wait()
                    return
            await self.look(now())

    async def look(self, now: float) -> None:
        """Write down what has waited long enough."""
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

    async def last(self) -> None:
        """Write down all that waits, as far as there is time for it."""
        left = [place for place in self.meter.accounts if place[1] is not None]
        try:
            async with asyncio.timeout(LAST_S):
                while left:
                    await self._write(left.pop(0))
        except TimeoutError:
            self.dropped += sum(bool(self.meter.close(place)) for place in left)

    async def _write(self, place: tuple[Actor, Owner]) -> None:
        """Write down a job's counts, with this write among them; drop what fails."""
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
