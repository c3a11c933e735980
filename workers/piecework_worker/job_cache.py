"""The rows of the jobs that one worker works on, each read once for all its chunks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from piecework.domain.job import Job
from piecework.domain.refs import JobRef
from piecework.runtime import Runtime

#: The most jobs that a worker remembers.
JOB_CACHE_SIZE = 1_000


@dataclass(slots=True)
class JobCache:
    """The jobs of one worker, as it last read them."""

    rt: Runtime
    _jobs: dict[JobRef, tuple[float, Job]] = field(default_factory=dict)
    _reading: dict[JobRef, asyncio.Task[Job | None]] = field(default_factory=dict)
    _fresh: dict[JobRef, asyncio.Task[Job | None]] = field(default_factory=dict)

    async def recent(self, ref: JobRef) -> Job | None:
        """Return a job as it was at most `cancel_poll_s` ago; callers share one read.

        A worker claims no chunk of a job that has been cancelled for longer than that.
        """
        now = asyncio.get_running_loop().time()
        cached = self._jobs.get(ref)
        if cached is not None and now - cached[0] < self.rt.settings.cancel_poll_s:
            return cached[1]
        read = self._reading.get(ref)
        if read is None:
            read = self._reading[ref] = asyncio.create_task(self._read(ref, now))
            read.add_done_callback(lambda done: self._on_job_read(ref, done))
        return await asyncio.shield(read)

    async def _read(self, ref: JobRef, now: float) -> Job | None:
        job = await self.rt.jobs.read(ref)
        if job is not None:
            self.remember(ref, job, now)
        return job

    async def fresh(self, ref: JobRef) -> Job | None:
        """Return a job as it is after this call; callers of one round share a read."""
        read = self._fresh.get(ref)
        if read is None:
            read = self._fresh[ref] = asyncio.create_task(self._read_fresh(ref))
        return await asyncio.shield(read)

    async def _read_fresh(self, ref: JobRef) -> Job | None:
        await asyncio.sleep(0)
        del self._fresh[ref]  # a later caller starts another read
        return await self._read(ref, asyncio.get_running_loop().time())

    def remember(self, ref: JobRef, job: Job, read_at: float) -> None:
        """Cache a job that was read at this loop time."""
        if len(self._jobs) >= JOB_CACHE_SIZE:
            self._jobs.clear()
        self._jobs[ref] = (read_at, job)

    def _on_job_read(self, ref: JobRef, read: asyncio.Task[Job | None]) -> None:
        del self._reading[ref]
        if not read.cancelled():
            read.exception()  # raised where it is waited for; that may be nowhere
