"""Delete a job that stored its payload in every form, and search all bytes for it.

The pipeline stores the payload in each form, small and large. The forms are label,
answers of calls, effects, stage values, results, dead letters and a file. The search
reads every row of both tables and every object of the bucket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from piecework.domain.refs import JobRef
from piecework_simulation.engine.world import BUCKET, World
from piecework_simulation.invariants.end_state import read_object, scan
from tests.scenarios.pipelines import Diary, revealing
from verification.drill.fleet import Fleet, exercise

REF = JobRef("default", "diary")
SECRET = "margarethe"
#: Seconds of virtual time until a job has ended.
PATIENCE_S = 600


class Traces(NamedTuple):
    """The rows and objects with a part of a payload, before a deletion and after it."""

    before: int
    after: int


def deleted_traces() -> Traces:
    """Run the job, redrive its dead letters, delete it, and count the traces."""

    async def act(fleet: Fleet) -> Traces:
        fleet.worker(revealing)
        diaries = [
            Diary(secret=f"{SECRET} {n}", outcome=outcome)
            for n, outcome in enumerate(("result", "large", "error", "error"))
        ]
        driver = fleet.driver
        said = await driver.submit(REF, revealing, diaries, mortal=False)
        assert said == "done", said
        await wait_for_end(fleet)
        said = await driver.redrive(REF, mortal=False)
        assert said == "done", said
        await wait_for_end(fleet)
        before = traces(fleet.world)
        said = await driver.delete(REF, mortal=False)
        assert said == "done", said
        return Traces(before, traces(fleet.world))

    return exercise(act)


async def wait_for_end(fleet: Fleet) -> None:
    """Wait until the job has ended."""
    for _ in range(PATIENCE_S):
        job = await fleet.rt.jobs.read(REF)
        if job is not None and job.status.ended:
            return
        await asyncio.sleep(1.0)
    message = "the job did not end"
    raise AssertionError(message)


def traces(world: World) -> int:
    """Count the rows and the objects that contain a part of a payload."""
    return sum(SECRET in text for text in stored(world))


def stored(world: World) -> Iterator[str]:
    """Yield every row and every object with its key."""
    settings = world.settings
    for table in (settings.checkpoints_table, settings.dead_letters_table):
        for row in scan(world, table):
            yield repr(row)
    for name in world.s3.names(BUCKET):
        yield name + read_object(world, name).decode()
