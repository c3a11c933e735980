"""From a manifest to a running job: write every chunk, count them, send each one.

Every step may be repeated, by the submitter after a crash or by any reconciler: the
manifest names the chunks, and what exists already is left as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from piecework.errors import StateError
from piecework.manifest import Entry, read_manifest
from piecework.model import Job, JobStatus
from piecework.queue import BATCH, Message
from piecework.runtime import Runtime
from piecework.store.jobs import CHUNKS_AT_ONCE

T = TypeVar("T")

#: Requests of a submit under way at once.
WRITERS = 4
SENDERS = 8
#: Told of each step: its name, and how many chunks it has done.
Progress = Callable[[str, int], None]


class MovedOnError(Exception):
    """The job is not being submitted any more: cancelled, or opened by another."""


async def fan_out(rt: Runtime, job: Job, progress: Progress = lambda *_: None) -> None:
    """Bring a job from SUBMITTING to RUNNING and send its chunks.

    Raises:
        StateError: `job.manifest.mismatch`, when the chunks that were written are not
            as many as the manifest lists.
    """
    if job.status is JobStatus.SUBMITTING:
        try:
            await write_chunks(rt, job, progress)
        except MovedOnError:
            return
        if not await rt.moves.open(job.ref, job.gen):
            return
    elif job.status is not JobStatus.RUNNING:
        return
    await send_chunks(rt, job, progress)
    await rt.moves.sent(job.ref, job.gen)


async def write_chunks(rt: Runtime, job: Job, progress: Progress) -> None:
    """Write every chunk of the manifest, and check that they are all there."""
    stage = str(job.item["first_stage"])
    written = Counter("written", progress)

    async def write(entries: list[Entry]) -> None:
        chunks = [(entry.chunk, entry.item(stage)) for entry in entries]
        if not await rt.jobs.add_chunks(job.ref, job.gen, chunks):
            raise MovedOnError
        written.add(len(entries))

    entries = read_manifest(rt.objects, job)
    await side_by_side(write, grouped(entries, CHUNKS_AT_ONCE), WRITERS)
    found = await rt.jobs.count_chunks(job.ref, job.chunks)
    if found != job.chunks:
        message = f"Job {job.ref.job} has {found} chunks, its manifest {job.chunks}."
        raise StateError(message, code="job.manifest.mismatch")


async def send_chunks(rt: Runtime, job: Job, progress: Progress) -> None:
    """Send every chunk of the manifest; one that has ended by now is not run again."""
    sent = Counter("sent", progress)

    async def send(entries: list[Entry]) -> None:
        messages = [Message.about(job.ref.chunk(e.chunk), job.gen) for e in entries]
        sent.add(await rt.work.send(messages))

    entries = read_manifest(rt.objects, job)
    await side_by_side(send, grouped(entries, BATCH), SENDERS)


@dataclass(slots=True)
class Counter:
    """Counts what is done, and tells."""

    step: str
    progress: Progress
    done: int = 0

    def add(self, more: int) -> None:
        """Count so many more."""
        self.done += more
        self.progress(self.step, self.done)


async def grouped(things: AsyncIterator[T], size: int) -> AsyncIterator[list[T]]:
    """Yield lists of up to `size` things."""
    group: list[T] = []
    async for thing in things:
        group.append(thing)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


async def side_by_side(
    work: Callable[[list[T]], Awaitable[None]],
    groups: AsyncIterator[list[T]],
    most: int,
) -> None:
    """Do the work for each group, at most so many at a time; hold no more than that."""
    slots = asyncio.Semaphore(most)

    async def one(group: list[T]) -> None:
        try:
            await work(group)
        finally:
            slots.release()

    try:
        async with asyncio.TaskGroup() as tasks:
            async for group in groups:
                await slots.acquire()
                tasks.create_task(one(group))
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from failures  # the first is the cause of the rest
