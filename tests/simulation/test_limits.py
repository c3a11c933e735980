"""No minute is above the limit while the workers of a simulated fleet die."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel

from piecework import Context, Dependency, Limits, Pipeline, Stage
from piecework.domain.effect import Effect
from piecework.domain.states import JobStatus
from tests.unit.orchestrator.simulated import Simulated, simulate
from verification.flow.provider import most_in_window

LIMIT, CHUNKS, CALLS = 120, 40, 12
provider = Dependency("provider", limits=Limits(requests_per_minute=LIMIT))
CALLED: list[float] = []


class Item(BaseModel):
    """A chunk."""

    n: int


@provider.call
async def ask(n: int, call: int) -> int:
    """Answer after a second."""
    CALLED.append(asyncio.get_running_loop().time())
    await asyncio.sleep(1.0)
    return n + call


async def ask_all(ctx: Context[Item]) -> int:
    """Make all calls at once."""
    calls = (ask(ctx.payload.n, call) for call in range(CALLS))
    return sum(await asyncio.gather(*calls))


limited = Pipeline(name="limited", payload=Item, stages=[Stage(ask_all)])


def test_no_minute_is_above_the_limit_while_workers_die() -> None:
    CALLED.clear()

    async def act(sim: Simulated) -> None:
        await sim.submit(limited, [Item(n=n) for n in range(CHUNKS)])
        for _ in range(6):
            await asyncio.sleep(20.0)
            sim.world.kill(next(iter(sim.fleet.workers)))
        assert JobStatus.SUCCEEDED is (await sim.ended()).status

    simulate(act, [limited], workers=4, max_attempts=10)
    assert most_in_window(CALLED, 60.0) <= LIMIT
    # A killed worker takes little quota with it.
    minutes = (max(CALLED) - min(CALLED)) / 60
    assert len(CALLED) / minutes >= 0.8 * LIMIT


fax = Dependency(
    "fax", effect=Effect.NON_IDEMPOTENT, limits=Limits(requests_per_minute=30)
)
SENT: list[str] = []


@fax.call
async def send(page: str, *, idempotency_key: str) -> str:
    """Send at once: only a death while the call waits is likely."""
    del idempotency_key
    SENT.append(page)
    return page


async def send_all(ctx: Context[Item]) -> int:
    """Send all pages at once; a page that cannot be sent now ends the others."""
    async with asyncio.TaskGroup() as group:
        for page in range(4):
            group.create_task(send(f"{ctx.payload.n}-{page}"))
    return 4


faxing = Pipeline(name="faxing", payload=Item, stages=[Stage(send_all)])


@pytest.mark.parametrize(("kills", "wait_s"), [(6, 300.0), (0, 20.0)])
def test_no_effect_is_in_doubt_because_its_call_waited_for_quota(
    kills: int, wait_s: float
) -> None:
    SENT.clear()

    async def act(sim: Simulated) -> None:
        await sim.submit(faxing, [Item(n=n) for n in range(10)])
        for _ in range(kills):
            await asyncio.sleep(7.3)
            sim.world.kill(next(iter(sim.fleet.workers)))
        assert JobStatus.SUCCEEDED is (await sim.ended()).status

    facts = {"max_attempts": 10, "quota_wait_s": wait_s}
    simulate(act, [faxing], workers=3, seed=1, **facts)
    assert sorted(f"{n}-{page}" for n in range(10) for page in range(4)) == sorted(SENT)
