"""Submit large jobs in virtual time, under the conflicts and the throttling of AWS.

The true submit runs on the model of AWS. In half of the runs a second process repeats
the submit at the same time. Each run draws how long transactions last, when the table
grows, and which requests are throttled. `make submit-large` fails unless every job is
RUNNING with all its chunks.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from random import Random

from pydantic import BaseModel

from piecework import Pipeline, Stage
from piecework.domain.chunk_input import ChunkInput
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.errors import StoreError
from piecework.jobs import fan_out
from piecework.settings import Settings
from piecework_orchestrator.submit.submit import Submission, submit
from piecework_simulation.aws.conflicts import Conflicts
from piecework_simulation.aws.throughput import Throughput
from piecework_simulation.engine.faults import Faults
from piecework_simulation.engine.leftovers import leftovers_discarded
from piecework_simulation.engine.runtimes import open_runtime
from piecework_simulation.engine.world import World

REF = JobRef("default", "large")
#: The longest time of a transaction, in seconds, from which each run draws.
LONGEST_S = (0.05, 0.2, 1.0)
#: The second submit begins within so many seconds after the first.
SECOND_WITHIN_S = 20.0


class Row(BaseModel):
    """A row of the input."""

    n: int


def done(_: Row) -> None:
    """Do nothing with a chunk."""


pipeline = Pipeline("large", payload=Row, stages=[Stage(done)])


@dataclass(frozen=True, slots=True)
class Submitted:
    """What a run has found.

    Attributes:
        problem: Why the job is not RUNNING with all its chunks; or empty.
        seconds: Of virtual time.
        conflicts, throttled: Requests and statements that were refused so.
    """

    problem: str
    seconds: float
    conflicts: int
    throttled: int


def run(seed: int, chunks: int, writers: int) -> Submitted:
    """Submit a job in a world of its own."""
    rng = Random(seed)
    world = World(Settings(), Faults({}, rng), rng)
    aws = world.dynamodb
    aws.page_items = None
    aws.conflicts = Conflicts(world.now, rng, rng.choice(LONGEST_S))
    aws.throughput = Throughput(world.now, rng)
    fan_out.WRITERS = writers

    async def one(name: str, delay_s: float) -> str:
        await asyncio.sleep(delay_s)
        rt = open_runtime(world, world.process(name, mortal=False))
        asked = Submission(REF, pipeline, "submits", "tester")
        try:
            await submit(rt, asked, inputs(chunks))
        except StoreError as error:
            return str(error)
        return ""

    async def all_of_it() -> tuple[list[str], str]:
        works = [one("submitter", 0.0)]
        if rng.random() < 0.5:
            works.append(one("second", rng.uniform(0.0, SECOND_WITHIN_S)))
        problems = [text for text in await asyncio.gather(*works) if text]
        rt = open_runtime(world, world.process("reader", mortal=False))
        job = await rt.jobs.read(REF)
        count = await rt.jobs.count_chunks(REF, chunks)
        status = None if job is None else job.status
        ok = status is JobStatus.RUNNING and count == chunks
        return problems, "" if ok else f"{status} with {count} chunks"

    began = world.loop.moment
    with leftovers_discarded(world):
        problems, state = world.loop.run(all_of_it())
    seconds = world.loop.moment - began
    throttled = aws.throughput.throttled
    text = "; ".join([*problems, *([state] if state else [])])
    return Submitted(text, seconds, aws.conflicts.refused, throttled)


async def inputs(chunks: int) -> AsyncIterator[ChunkInput]:
    """Yield small payloads."""
    for number in range(chunks):
        yield ChunkInput(str(number), b'{"n":%d}' % number)


def main() -> int:
    """Run all; return 1 if a job did not start."""
    parser = argparse.ArgumentParser(prog="python -m verification.submits")
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    found = []
    for seed in range(asked.seed, asked.seed + asked.runs):
        found.append(one := run(seed, asked.chunks, asked.writers))
        if one.problem:
            sys.stdout.write(f"seed {seed}: {one.problem}\n")
    failed = sum(bool(each.problem) for each in found)
    sys.stdout.write(
        f"chunks={asked.chunks} writers={asked.writers} runs={len(found)}"
        f" failed={failed}"
        f" conflicts={sum(each.conflicts for each in found)}"
        f" throttled={sum(each.throttled for each in found)}"
        f" slowest_s={max(each.seconds for each in found):.0f}\n"
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
