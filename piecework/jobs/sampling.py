"""The sample of a job: random chunks that run first, and show what the rest will cost.

A submit sends only the chunks of the sample, and opens no backlog. When they have
ended, one write pauses the job, or starts the rest if the submit asked for that. The
process that waits for the sample does it, or a reconciler. The chunks of the sample
count towards the job, so nothing is paid twice.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.pause import Pause, PauseCode
from piecework.domain.states import JobStatus
from piecework.errors import UsageError
from piecework.jobs.pausing import redispatch
from piecework.runtime import Runtime
from piecework.store.completion import read_chunk

#: Chunks of a sample: their numbers are on the row of the job, which workers poll.
MAX_SAMPLE: Final = 200
#: The actor of the pause at the end of a sample.
ACTOR: Final = "sample"


def draw_sample(chunks: int, wanted: int | None, rng: Random) -> list[int]:
    """Return the numbers of random chunks; empty: no sample, or the whole job.

    Raises:
        UsageError: `submit.sample.invalid`.
    """
    if wanted is None:
        return []
    if not 1 <= wanted <= MAX_SAMPLE:
        message = f"A sample has 1 to {MAX_SAMPLE} chunks, not {wanted}."
        raise UsageError(message, code="submit.sample.invalid")
    return sorted(rng.sample(range(chunks), wanted)) if wanted < chunks else []


async def sample_chunks(rt: Runtime, job: Job) -> list[Chunk]:
    """Read the chunks of the sample."""
    reads = (read_chunk(rt.table, job.ref.chunk(n)) for n in sorted(job.sample))
    return [chunk for chunk in await asyncio.gather(*reads) if chunk is not None]


async def end_sample(rt: Runtime, job: Job) -> bool:
    """Pause a job whose sample has ended, or start the rest.

    False: another process did, or the job is not RUNNING.
    """
    if job.status is not JobStatus.RUNNING or not job.holds_rest:
        return False
    done = f"{len(job.sample)} of {job.chunks} chunks have ended as a sample"
    if not job.goes_on_after_sample:
        pause = Pause(PauseCode.SAMPLE, f"{done}; the rest waits for a resume", ACTOR)
        return await rt.transitions.pause(job, pause)
    if not await rt.transitions.release_rest(job, ACTOR, done):
        return False
    await redispatch(rt, job.ref)
    return True
