"""Note on a job what keeps its chunks from running here, for operators."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.outcome import NEWER_WORKERS, STORE, WORKER, Deferred
from piecework.domain.refs import JobRef
from piecework.errors import StoreError
from piecework.resilience.limits import DEPENDENCY_PAUSED_CODE
from piecework.saga.recovery import retry_after
from piecework.store.jobs import Jobs
from piecework_worker.job_cache import JOB_CACHE_SIZE


@dataclass(slots=True)
class JobNotes:
    """The notes of one worker; each costs a write, so it repeats none.

    Attributes:
        unknown_in_a_row: Messages in a row whose pipeline this worker does not have.
    """

    jobs: Jobs
    worker: str
    clock: Callable[[], float]
    unknown_in_a_row: int = 0
    _unknown: set[JobRef] = field(default_factory=set)
    _blocked: dict[tuple[JobRef, str], float] = field(default_factory=dict)

    async def unknown_pipeline(self, job: Job) -> None:
        """Note on the job, once, that this worker does not have its pipeline."""
        if job.ref not in self._unknown:
            if len(self._unknown) >= JOB_CACHE_SIZE:
                self._unknown.clear()
            self._unknown.add(job.ref)
            reason = f"worker {self.worker} does not have pipeline {job.pipeline}"
            with suppress(StoreError):
                await self.jobs.note(job.ref, "runtime.pipeline.unknown", reason)

    async def blocked(self, job: Job, deferred: Deferred) -> None:
        """Note on the job what blocks it, once for each deferral period."""
        name, now = deferred.blocked_on, self.clock()
        if self._blocked.get((job.ref, name), now) > now:
            return
        until = now + retry_after(deferred.failure)
        if len(self._blocked) >= JOB_CACHE_SIZE:
            self._blocked.clear()
        self._blocked[job.ref, name] = until
        blocker = (
            name if name in {NEWER_WORKERS, STORE, WORKER} else f"dependency {name}"
        )
        reason = f"waits for {blocker} until {iso(until)}"
        if deferred.failure.code == DEPENDENCY_PAUSED_CODE:
            reason = deferred.failure.message  # it names the operator and the reason
        with suppress(StoreError):
            await self.jobs.note(job.ref, deferred.failure.code, reason, until)
