"""What reconcilers read, in read units by AWS's rules, in virtual time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import pytest
from pydantic import BaseModel

from piecework import Context, Pipeline, Stage
from piecework.cost.meter import current_actor
from piecework.cost.units import read_by_rule
from piecework.domain.refs import JobRef
from piecework_simulation.engine.network import Exchange
from tests.unit.orchestrator.simulated import Simulated, simulate

READS = {"get_item": "GetItem", "query": "Query"}
#: The price of a read unit in us-east-1.
USD = 0.125e-6


class Nap(BaseModel):
    """A chunk."""

    seconds: float = 30.0


async def nap(ctx: Context[Nap]) -> None:
    """Take long."""
    await asyncio.sleep(ctx.payload.seconds)


napping = Pipeline(name="napping", payload=Nap, stages=[Stage(nap)])


def count_reads(at: Simulated) -> Callable[[], float]:
    """Count what reconcilers read from now on; the function returns the units."""
    units = 0.0

    def note(when: str, exchange: Exchange) -> None:
        nonlocal units
        if when != "answered" or current_actor() != "reconciler":
            return
        if name := READS.get(exchange.operation):
            units += read_by_rule(name, exchange.request, exchange.answer.result())

    at.world.on_exchange = note
    return lambda: units


def refs(count: int) -> list[JobRef]:
    """Return the names of so many jobs."""
    return [JobRef("default", f"j{number}") for number in range(count)]


def cost_of_long_chunks() -> float:
    """Return the USD of the reads a million chunks of 30 s, in two workers."""
    slots, seconds = 32, 30.0

    async def life(at: Simulated) -> float:
        await at.fleet.submit(refs(1)[0], napping, [Nap()] * 1_200, mortal=False)
        await asyncio.sleep(60.0)
        units, began = count_reads(at), at.world.loop.time()
        await asyncio.sleep(120.0)
        return units() / (at.world.loop.time() - began)

    a_second = simulate(life, [napping], workers=2)
    return a_second * 1_000_000 * seconds / slots * USD


def test_a_job_of_long_chunks_costs_what_is_in_flight() -> None:
    """1,000 chunks of the job wait, and are not read."""
    assert 0.1 <= cost_of_long_chunks() <= 1.0


@pytest.mark.parametrize("limit", [10.0, 30.0])
def test_all_jobs_together_keep_to_one_limit(limit: float) -> None:
    """The jobs are paused, so a pass reads all their chunks: 103 units for each job."""
    jobs = 6

    async def life(at: Simulated) -> float:
        for ref in refs(jobs):
            await at.fleet.submit(ref, napping, [Nap()] * 600, mortal=False)
            await at.fleet.pause(ref, mortal=False)
        await asyncio.sleep(60.0)
        units, began = count_reads(at), at.world.loop.time()
        await asyncio.sleep(300.0)
        return units() / (at.world.loop.time() - began)

    a_second = simulate(life, [napping], reconcile_read_units=limit)
    assert limit / 2 <= a_second <= limit


if __name__ == "__main__":
    sys.stdout.write(f"{cost_of_long_chunks():.2f} USD a million long chunks\n")
