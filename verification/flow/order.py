"""How fast the chunks of order keys follow one another, in virtual time.

Real workers, submits and reconcilers; AWS is the model of the simulator, which answers
within milliseconds. A chunk takes a second and makes no call.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from pydantic import BaseModel

from piecework import Context, Pipeline, Stage
from piecework.domain.priority import Priority
from piecework.domain.refs import JobRef
from tests.unit.orchestrator.simulated import Simulated, simulate
from verification.flow.fairness import ended

WORKERS: Final = 2
KEYS: Final = 20
CHUNKS_PER_KEY: Final = 30
CHUNK_S: Final = 1.0
#: The chunks of a small job, and when it starts beside a large ordered one.
SMALL: Final = 20
LATER_S: Final = 60.0


class Entry(BaseModel):
    """A chunk of an account; -1: of none."""

    account: int = -1


async def post(ctx: Context[Entry]) -> int:
    """Take a second."""
    await asyncio.sleep(CHUNK_S)
    return ctx.payload.account


posting = Pipeline(
    "posting",
    payload=Entry,
    stages=[Stage(post)],
    ordered_by=lambda entry: None if entry.account < 0 else entry.account,
)


async def submit(sim: Simulated, job: str, entries: list[Entry], **more: Any) -> JobRef:
    """Submit a job of this name."""
    ref = JobRef("default", job)
    assert await sim.fleet.submit(ref, posting, entries, mortal=False, **more) == "done"
    return ref


async def job_s(sim: Simulated, job: str, entries: list[Entry], **more: Any) -> float:
    """Return the seconds of a job from its submit to its end."""
    began = asyncio.get_running_loop().time()
    await ended(sim, await submit(sim, job, entries, **more))
    return asyncio.get_running_loop().time() - began


def accounts(keys: int, each: int) -> list[Entry]:
    """Return chunks that alternate between keys."""
    return [Entry(account=n % keys) for n in range(keys * each)]


def makespan_by_ideal(priority: Priority = Priority.NORMAL) -> float:
    """Return the time of a job of 20 keys by that of its longest key without a pause.

    The slots of one worker are enough for all keys.
    """

    async def act(sim: Simulated) -> float:
        entries = accounts(KEYS, CHUNKS_PER_KEY)
        return await job_s(sim, "ordered", entries, priority=priority)

    took = simulate(act, [posting], workers=WORKERS, max_chunks=2 * KEYS)
    return took / (CHUNKS_PER_KEY * CHUNK_S)


def low_makespan_by_ideal() -> float:
    """Return the same for a job whose keys are drawn from its backlog."""
    return makespan_by_ideal(Priority.LOW)


def small_beside_ordered() -> float:
    """Return the time of a small job beside 100 long keys, by its time alone."""

    async def alone(sim: Simulated) -> float:
        return await job_s(sim, "small", [Entry()] * SMALL)

    async def together(sim: Simulated) -> float:
        await submit(sim, "ordered", accounts(100, CHUNKS_PER_KEY))
        await asyncio.sleep(LATER_S)
        return await job_s(sim, "small", [Entry()] * SMALL)

    few = {"max_chunks": 8}
    beside = simulate(together, [posting], workers=WORKERS, **few)
    return beside / simulate(alone, [posting], workers=WORKERS, **few)
