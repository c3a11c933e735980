"""Note on a job what keeps its chunks from running here, for operators."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from piecework import telemetry
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.outcome import (
    OTHER_WORKERS,
    PINNED_CODE,
    STORE,
    UNKNOWN_CODE,
    WORKER,
    Deferred,
)
from piecework.domain.refs import JobRef
from piecework.errors import StoreError
from piecework.resilience.limits import DEPENDENCY_PAUSED_CODE
from piecework.saga.recovery import retry_after
from piecework.store.jobs import Jobs
from piecework_worker.job_cache import JOB_CACHE_SIZE

#: Characters of a change on a job's row: every write of the row pays for them.
LONGEST = 300


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
    _changed: set[tuple[JobRef, str]] = field(default_factory=set)
    _blocked: dict[tuple[JobRef, str], float] = field(default_factory=dict)

    async def left(self, job: Job, code_version: str | None) -> None:
        """Note on the job, once, that this worker does not run it, and why.

        `code_version`: that of its pipeline here; None: the worker does not have it.
        """
        if job.ref not in self._unknown:
            if len(self._unknown) >= JOB_CACHE_SIZE:
                self._unknown.clear()
            self._unknown.add(job.ref)
            code = UNKNOWN_CODE
            reason = f"worker {self.worker} does not have pipeline {job.pipeline}"
            if code_version is not None:
                code, has = PINNED_CODE, code_version or "an unknown one"
                reason = (
                    f"the job is pinned to code version {job.pinned_to}, and worker "
                    f"{self.worker} has {has}"
                )
            with suppress(StoreError):
                await self.jobs.note(job.ref, code, reason)

    async def changed(
        self, job: Job, code_version: str, difference: str, log: telemetry.Log
    ) -> None:
        """Note on the job, once for each version, what has changed since its submit."""
        text = f"{code_version or 'an unknown version'}: {difference}"[:LONGEST]
        if text in job.code_changes or (job.ref, text) in self._changed:
            return
        if len(self._changed) >= JOB_CACHE_SIZE:
            self._changed.clear()
        self._changed.add((job.ref, text))
        with suppress(StoreError):
            if await self.jobs.note_change(job.ref, text):
                version = code_version or "unknown"
                telemetry.emit(
                    log, "code.changed", code_version=version, difference=difference
                )

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
            name if name in {OTHER_WORKERS, STORE, WORKER} else f"dependency {name}"
        )
        reason = f"waits for {blocker} until {iso(until)}"
        if deferred.failure.code == DEPENDENCY_PAUSED_CODE:
            reason = deferred.failure.message  # it names the operator and the reason
        with suppress(StoreError):
            await self.jobs.note(job.ref, deferred.failure.code, reason, until)
