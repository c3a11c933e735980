"""Some poison inputs of 22, in virtual time and with all defaults.

The provider answers 500 to every call of these chunks, and all other calls after some
seconds. A second job calls the same dependency meanwhile.
"""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from piecework import Context, Dependency, Pipeline, Stage, TransientError
from piecework.domain.chunk import Chunk
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.moments import moment
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.settings import Settings
from piecework.store.completion import all_chunks
from tests.unit.orchestrator.simulated import Simulated, simulate

CHUNKS: Final = 22
CALLS: Final = 12
POISON: Final = 16
#: Some poison inputs of a job.
FEW: Final = ((3, 16), (3, 9, 16))
FIVE: Final = (3, 6, 9, 12, 16)
OTHER: Final = JobRef("default", "other")
#: Seconds of an answer, and of a refusal.
ANSWER_S, REFUSAL_S = 2.0, 0.2
#: Seconds between the submits of the two jobs.
LATER_S: Final = 20.0
#: Virtual seconds after which a job that has not ended counts as one that never does.
NEVER_S: Final = 100_000.0
DEFAULTS: Final = Settings()


class Clause(BaseModel):
    """A chunk; `poison`: the provider fails for it."""

    n: int
    poison: bool = False


provider = Dependency("provider", layer="llm")


@provider.call
async def ask(n: int, call: int, poison: bool) -> int:  # noqa: FBT001 -- a call's argument
    """Answer, or fail for this input."""
    await asyncio.sleep(REFUSAL_S if poison else ANSWER_S)
    if poison:
        raise TransientError(
            "It failed.", http_status=500, code="llm.http.500_server_error"
        )
    return n + call


async def at_once(ctx: Context[Clause]) -> int:
    """Make all calls at once."""
    clause = ctx.payload
    calls = (ask(clause.n, call, clause.poison) for call in range(CALLS))
    return sum(await asyncio.gather(*calls))


async def in_turn(ctx: Context[Clause]) -> int:
    """Make one call after the other."""
    clause = ctx.payload
    return sum([await ask(clause.n, call, clause.poison) for call in range(CALLS)])


SHAPES: Final = tuple(
    Pipeline(name=stage.__name__, payload=Clause, stages=[Stage(stage)])
    for stage in (at_once, in_turn)
)


@dataclass(frozen=True, slots=True)
class PoisonRun:
    """The ends of both jobs.

    Attributes:
        dead_after_s: The seconds from the submit to each dead letter.
        other_s: The seconds that the second job took.
    """

    statuses: tuple[JobStatus, JobStatus]
    dead_after_s: dict[int, float]
    letters: list[DeadLetterRow]
    chunks: list[Chunk]
    other_s: float

    @property
    def poisoned_innocents(self) -> int:
        """Chunks without a poison input that died, waited or were tried again."""
        return self.harmed_innocents + sum(c.deferrals > 0 for c in self.innocents)

    @property
    def harmed_innocents(self) -> int:
        """Chunks without a poison input that died or spent a second attempt."""
        return sum(
            c.status is not ChunkStatus.SUCCEEDED or c.attempts > 1
            for c in self.innocents
        )

    @property
    def innocents(self) -> list[Chunk]:
        """The chunks without a poison input."""
        return [c for c in self.chunks if c.ref.chunk not in self.dead_after_s]


def run_poison(
    shape: Pipeline,
    *poison: int,
    seed: int = 1,
    workers: int = 2,
    beside: bool = True,
    **settings: Any,
) -> PoisonRun:
    """Run two jobs with these poison inputs in the first.

    `beside`: whether the second job runs beside the first; otherwise after it.
    """

    async def act(sim: Simulated) -> PoisonRun:
        began = sim.world.now()
        items = [Clause(n=n, poison=n in poison) for n in range(CHUNKS)]
        await sim.submit(shape, items)
        await asyncio.sleep(LATER_S)
        if not beside:
            await sim.ended()
        later = sim.world.now()
        others = [Clause(n=n) for n in range(CHUNKS)]
        await sim.fleet.submit(OTHER, shape, others, mortal=False)
        async with asyncio.timeout(NEVER_S):
            other = await ended(sim, OTHER)
            job = await sim.ended()
        chunks = await sim.chunks()
        dead = {
            chunk.ref.chunk: moment(chunk.ended_at) - began
            for chunk in chunks
            if chunk.status is ChunkStatus.DEAD
        }
        other_s = max(moment(c.ended_at) for c in await chunks_of(sim, OTHER)) - later
        letters = await sim.letters()
        return PoisonRun((job.status, other), dead, letters, chunks, other_s)

    known = {"max_attempts": DEFAULTS.max_attempts, **settings}
    return simulate(act, [shape], workers=workers, seed=seed, **known)


async def ended(sim: Simulated, ref: JobRef) -> JobStatus:
    """Return the status of a job once it has ended."""
    while True:
        job = await sim.rt.jobs.read(ref)
        if job is not None and job.status.ended:
            return job.status
        await asyncio.sleep(1.0)


async def chunks_of(sim: Simulated, ref: JobRef) -> list[Chunk]:
    """Return the chunks of a job."""
    job = await sim.rt.jobs.read(ref)
    assert job is not None
    return [c async for c in all_chunks(sim.rt.table, ref, job.chunks)]


# ── the figures ───────────────────────────────────────────────────────────────

SEEDS: Final = range(1, 6)
WORKERS: Final = (1, 2, 8)


@functools.cache
def all_runs() -> list[tuple[PoisonRun, PoisonRun]]:
    """Run each shape, number of workers and seed with one poison input, and without."""
    return [
        (
            run_poison(shape, POISON, seed=seed, workers=workers),
            run_poison(shape, seed=seed, workers=workers),
        )
        for shape in SHAPES
        for workers in WORKERS
        for seed in SEEDS
    ]


def poison_dead_letter_s() -> float:
    """Return the longest time from a submit to the dead letter of its poison input."""
    return max(run.dead_after_s.get(POISON, NEVER_S) for run, _ in all_runs())


def poisoned_innocents() -> float:
    """Return how many other chunks of the job the poison input harmed, in all runs."""
    return sum(run.poisoned_innocents for run, _ in all_runs())


def others_delay_s() -> float:
    """Return by how much the poison input delayed the second job, at most."""
    return max(run.other_s - without.other_s for run, without in all_runs())


@functools.cache
def runs_of(poison: tuple[int, ...]) -> list[PoisonRun]:
    """Run each shape and seed with these poison inputs, on two and eight workers."""
    return [
        run_poison(shape, *poison, seed=seed, workers=workers)
        for shape in SHAPES
        for workers in WORKERS[1:]
        for seed in SEEDS
    ]


def last_dead_letter_s(runs: list[PoisonRun]) -> float:
    """Return the longest time from a submit to the last dead letter of its job."""
    return max(max(run.dead_after_s.values(), default=NEVER_S) for run in runs)


def few_last_dead_letter_s() -> float:
    """Return it for two and for three poison inputs."""
    return max(last_dead_letter_s(runs_of(poison)) for poison in FEW)


def five_last_dead_letter_s() -> float:
    """Return it for five poison inputs."""
    return last_dead_letter_s(runs_of(FIVE))


def harmed_innocents() -> float:
    """Return how many chunks some poison inputs killed or cost an attempt."""
    return sum(run.harmed_innocents for each in (*FEW, FIVE) for run in runs_of(each))
