"""Fan-out: write every chunk of a manifest, count them, and send their messages.

The submitter after a crash, or any reconciler, may repeat every step. The manifest
lists the chunks, and existing chunks stay as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from piecework.aws.queue import BATCH, Message
from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.states import JobStatus
from piecework.errors import StateError, StoreError
from piecework.jobs.manifest import Entry, read_manifest
from piecework.runtime import Runtime
from piecework.store.table import INSERTS_AT_ONCE

T = TypeVar("T")

#: Concurrent requests of a submit.
WRITERS = 8
SENDERS = 8
#: Groups that are written alternately; their manifest lines are held in memory.
GROUPS_AT_ONCE = 16
#: Seconds between two writes of `progress_at` by a process that submits or reopens.
PROGRESS_WRITE_S = 10.0
#: Called with a step's name and the number of chunks that it has processed.
Progress = Callable[[str, int], None]


class JobStateChangedError(Exception):
    """The job is not SUBMITTING any more: another process cancelled or opened it."""


async def fan_out(rt: Runtime, job: Job, progress: Progress = lambda *_: None) -> None:
    """Bring a job from SUBMITTING to RUNNING and send its chunks.

    Raises:
        StateError: `job.manifest.mismatch`: the number of written chunks differs from
            the manifest's.
    """
    status = JobStatus.RUNNING
    if job.status is JobStatus.SUBMITTING:
        try:
            await write_chunks(rt, job, progress)
            await require_all(rt, job, progress)
        except JobStateChangedError:
            return
        if not await rt.transitions.open(job.ref, job.gen):
            return
        if await pause_with_pipeline(rt, job):
            status = JobStatus.PAUSED
    elif job.status is not JobStatus.RUNNING:
        return
    await send_chunks(rt, job, progress)
    await rt.transitions.sent(job.ref, job.gen, status)


async def pause_with_pipeline(rt: Runtime, job: Job) -> bool:
    """Pause a RUNNING job if its pipeline is paused; return whether it is paused now.

    The same transaction checks that the pipeline is still paused.
    """
    state = await rt.pipelines.read(job.ref.tenant, job.pipeline)
    if state.pause is None:
        return False
    pause = replace(state.pause, at="")
    return await rt.transitions.pause(job, pause, [rt.pipelines.still_paused(state)])


async def write_chunks(
    rt: Runtime, job: Job, progress: Progress = lambda *_: None
) -> None:
    """Create every chunk of the manifest that does not exist.

    Raises:
        JobStateChangedError: Another process has moved the job on.
    """
    facts: dict[str, Any] = {"expires_at": job.expires_at}
    stage = job.first_stage
    written, mark = Counter("written", progress), ProgressMark(rt, job)

    async def write(entries: list[Entry]) -> None:
        chunks = [(entry.chunk, facts | entry.item(stage)) for entry in entries]
        await rt.jobs.add_chunks(job.ref, job.gen, chunks)
        written.add(len(entries))
        if not await mark.write_if_due():
            raise JobStateChangedError

    entries = read_manifest(rt.objects, job)
    await gather_limited(write, interleave(entries), WRITERS)


async def require_all(rt: Runtime, job: Job, progress: Progress) -> None:
    """Verify that the job has as many chunks as its manifest.

    Raises:
        StateError: `job.manifest.mismatch`.
    """
    found = await count_chunks(rt, job, progress, ProgressMark(rt, job))
    if found != job.chunks:
        message = f"Job {job.ref.job} has {found} chunks, its manifest {job.chunks}."
        raise StateError(message, code="job.manifest.mismatch")


async def count_chunks(
    rt: Runtime, job: Job, progress: Progress, mark: ProgressMark
) -> int:
    """Count the written chunks; this takes long for a large job."""
    counted = Counter("counted", progress)

    async def report(found: int) -> None:
        if counted.done or found < job.chunks:
            counted.add(found - counted.done)
        await mark.write_if_due()

    return await rt.jobs.count_chunks(job.ref, job.chunks, report)


async def send_chunks(rt: Runtime, job: Job, progress: Progress) -> None:
    """Send the messages of the chunks, except those of the backlog and blocked ones.

    An ended chunk does not run again. The worker that unblocks a chunk starts it, or
    sends its message. If the backlog has every chunk, one message wakes a worker. While
    a job has a sample, only the sample is sent.
    """
    if job.holds_rest:
        sample = [Message.about(job.ref.chunk(n), job.gen) for n in sorted(job.sample)]
        progress("sent", await rt.work.send(sample, to=job.queue))
        return
    start = job.backlog_start
    if start is not None:
        await rt.backlogs.open(job, start)
    sent, mark = Counter("sent", progress), ProgressMark(rt, job)

    async def send(entries: list[Entry]) -> None:
        messages = [
            Message.about(job.ref.chunk(entry.chunk), job.gen)
            for entry in entries
            if entry.blocked_by is None
        ]
        if messages:
            await rt.work.send(messages, to=job.queue)
        sent.add(len(entries))
        await mark.write_if_due()

    async with aclosing(read_manifest(rt.objects, job)) as entries:
        some = entries if start is None else limited(entries, max(start, 1))
        await gather_limited(send, batched(some, BATCH), SENDERS)
    if start is not None:
        sent.add(job.chunks - sent.done)


@dataclass(slots=True)
class ProgressMark:
    """Writes the job's `progress_at` periodically while work on it proceeds.

    Without it a reconciler would take a slow submit for a crashed one, and would run it
    a second time.
    """

    rt: Runtime
    job: Job
    _due: float = field(init=False)

    def __post_init__(self) -> None:
        """Delay the first write, so that a small job needs none."""
        self._due = self.rt.clock() + PROGRESS_WRITE_S

    async def write_if_due(self) -> bool:
        """Write the time if it is due; False: the job is in another state now.

        A failed write is left to the next one.
        """
        now = self.rt.clock()
        if now >= self._due:
            self._due = now + PROGRESS_WRITE_S
            with suppress(StoreError):
                return await self.rt.jobs.touch(self.job)
        return True


@dataclass(slots=True)
class Counter:
    """Counts processed chunks and reports them."""

    step: str
    progress: Progress
    done: int = 0

    def add(self, more: int) -> None:
        """Add to the count and report it."""
        self.done += more
        self.progress(self.step, self.done)


async def interleave(entries: AsyncIterator[Entry]) -> AsyncIterator[list[Entry]]:
    """Yield lists of entries to write, alternating between groups.

    Consecutive lists would all go to one partition, which accepts 1,000 write units per
    second, that is 1,000 chunks.
    """
    step = -(-keys.PARTITION_SIZE // INSERTS_AT_ONCE)
    async for window in batched(entries, GROUPS_AT_ONCE * keys.PARTITION_SIZE):
        firsts = range(0, len(window), INSERTS_AT_ONCE)
        lists = [window[first : first + INSERTS_AT_ONCE] for first in firsts]
        for offset in range(step):
            for some in lists[offset::step]:
                yield some


async def limited(entries: AsyncIterator[Entry], most: int) -> AsyncIterator[Entry]:
    """Yield at most `most` entries."""
    left = most
    async for entry in entries:
        yield entry
        left -= 1
        if not left:
            return


async def batched(things: AsyncIterator[T], size: int) -> AsyncIterator[list[T]]:
    """Yield lists of up to `size` things."""
    group: list[T] = []
    async for thing in things:
        group.append(thing)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


async def gather_limited(
    work: Callable[[list[T]], Awaitable[None]],
    groups: AsyncIterator[list[T]],
    most: int,
) -> None:
    """Run `work` for each group, at most `most` at a time and in memory."""
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
