"""From a manifest to a running job: write every chunk, count them, send each one.

Every step may be repeated, by the submitter after a crash or by any reconciler: the
manifest names the chunks, and what exists already is left as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from piecework import layout
from piecework.errors import StateError, StoreError
from piecework.manifest import Entry, read_manifest
from piecework.model import Job, JobStatus
from piecework.queue import BATCH, Message
from piecework.runtime import Runtime
from piecework.store.jobs import CHUNKS_AT_ONCE

T = TypeVar("T")

#: Requests of a submit under way at once.
WRITERS = 4
SENDERS = 8
#: Groups of chunks that are written by turns; their lines of the manifest are held.
GROUPS_AT_ONCE = 16
#: Seconds between two signs of life of who submits, or resumes, a large job.
HEARTBEAT_S = 10.0
#: Told of each step: its name, and how many chunks it has done.
Progress = Callable[[str, int], None]


class JobStateChangedError(Exception):
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
        except JobStateChangedError:
            return
        if not await rt.transitions.open(job.ref, job.gen):
            return
    elif job.status is not JobStatus.RUNNING:
        return
    await send_chunks(rt, job, progress)
    await rt.transitions.sent(job.ref, job.gen)


async def write_chunks(rt: Runtime, job: Job, progress: Progress) -> None:
    """Write every chunk of the manifest, and check that they are all there."""
    stage = str(job.item["first_stage"])
    written, life = Counter("written", progress), ProgressHeartbeat(rt, job)

    async def write(entries: list[Entry]) -> None:
        chunks = [(entry.chunk, entry.item(stage)) for entry in entries]
        if not await rt.jobs.add_chunks(job.ref, job.gen, chunks):
            raise JobStateChangedError
        written.add(len(entries))
        await life.show()

    entries = read_manifest(rt.objects, job)
    await side_by_side(write, spread(entries), WRITERS)
    found = await count_chunks(rt, job, progress, life)
    if found != job.chunks:
        message = f"Job {job.ref.job} has {found} chunks, its manifest {job.chunks}."
        raise StateError(message, code="job.manifest.mismatch")


async def count_chunks(
    rt: Runtime, job: Job, progress: Progress, life: ProgressHeartbeat
) -> int:
    """Count the chunks that are there, which takes a large job long, too."""
    counted = Counter("counted", progress)

    async def told(found: int) -> None:
        if counted.done or found < job.chunks:
            counted.add(found - counted.done)
        await life.show()

    return await rt.jobs.count_chunks(job.ref, job.chunks, told)


async def send_chunks(rt: Runtime, job: Job, progress: Progress) -> None:
    """Send every chunk of the manifest; one that has ended by now is not run again."""
    sent, life = Counter("sent", progress), ProgressHeartbeat(rt, job)

    async def send(entries: list[Entry]) -> None:
        messages = [Message.about(job.ref.chunk(e.chunk), job.gen) for e in entries]
        sent.add(await rt.work.send(messages))
        await life.show()

    entries = read_manifest(rt.objects, job)
    await side_by_side(send, grouped(entries, BATCH), SENDERS)


@dataclass(slots=True)
class ProgressHeartbeat:
    """Shows now and then that the job is being seen to, as long as that gets on.

    Else a reconciler would take a submit that is merely large for one that stopped
    half-way, and do all of it once more beside it.
    """

    rt: Runtime
    job: Job
    _due: float = field(init=False)

    def __post_init__(self) -> None:
        """Let a small job be done without one."""
        self._due = self.rt.clock() + HEARTBEAT_S

    async def show(self) -> None:
        """Show one if it is time to; the next will do if this one cannot be written."""
        now = self.rt.clock()
        if now >= self._due:
            self._due = now + HEARTBEAT_S
            with suppress(StoreError):
                await self.rt.jobs.touch(self.job.ref, self.job.gen)


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


async def spread(entries: AsyncIterator[Entry]) -> AsyncIterator[list[Entry]]:
    """Yield lists of entries to be written; those close together lie in many groups.

    One after the other the lists would all go to one partition, which takes 1,000
    write units a second: 500 chunks.
    """
    step = -(-layout.PARTITION_SIZE // CHUNKS_AT_ONCE)
    async for window in grouped(entries, GROUPS_AT_ONCE * layout.PARTITION_SIZE):
        firsts = range(0, len(window), CHUNKS_AT_ONCE)
        lists = [window[first : first + CHUNKS_AT_ONCE] for first in firsts]
        for offset in range(step):
            for some in lists[offset::step]:
                yield some


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
