"""The reconciler's loop: look at every active job, act, wait."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from piecework import telemetry
from piecework.cost.meter import acting_as
from piecework.domain.model import CANCELLABLE, ChunkRef, Job, JobRef
from piecework.domain.records import MALFORMED_ERRORS, UNREADABLE
from piecework.errors import PieceworkError, SchemaTooNewError
from piecework.errors.classify import classify
from piecework.health import Liveness
from piecework.reconciler.dead_letter_queue import DeadLetterAlarms, drain
from piecework.reconciler.jobs import reconcile_job
from piecework.reconciler.liveness import LeaseObserver
from piecework.reconciler.pass_state import PassContext, refuse_chunk
from piecework.runtime import Runtime

#: Bytes that a consistent read unit covers, and about what a chunk item has.
UNIT_BYTES = 4096
CHUNK_BYTES = 700
#: Seconds between two looks while no job is active.
IDLE_S = 20.0
#: Errors of a job that none but a person can mend.
NOTED = {
    UNREADABLE,
    "job.manifest.mismatch",
    "runtime.object.missing",
    "runtime.payload.corrupt",
}


@dataclass(slots=True)
class Reconciler:
    """What one reconciler has seen, and when it may look at a job again."""

    rt: Runtime
    log: structlog.stdlib.BoundLogger
    take: Callable[[ChunkRef, int], Awaitable[bool]] = refuse_chunk
    liveness: Liveness = field(default_factory=Liveness)
    active: int = 0
    _look: PassContext = field(init=False)
    _alarms: DeadLetterAlarms = field(init=False)
    _next_look: dict[JobRef, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with nothing seen."""
        alive = self.liveness.expect_reconciler
        self._look = PassContext(self.rt, self.take, progress=lambda *_: alive())
        self._alarms = DeadLetterAlarms(self.rt, self.log)

    @property
    def sightings(self) -> LeaseObserver:
        """What has been seen of running chunks."""
        return self._look.sightings

    async def look(self) -> Counter[str]:
        """Run one pass over all due jobs; return the number of each action."""
        acts: Counter[str] = Counter()
        began = asyncio.get_running_loop().time()
        self.active = 0
        gone = set(self._next_look)
        async for ref in self.rt.jobs.active():
            self.active += 1
            gone.discard(ref)
            self.liveness.expect_reconciler()
            now = asyncio.get_running_loop().time()
            if self._next_look.get(ref, 0.0) <= now:
                acts += await self._job(ref)
        for ref in gone:
            self._forget(ref)
        acts += await self._drain()
        acts += await self._watch_letters()
        for action, count in acts.items():
            telemetry.emit(self.log, "reconcile.action", action=action, count=count)
        took = asyncio.get_running_loop().time() - began
        telemetry.emit(
            self.log,
            "reconcile.pass",
            jobs=self.active,
            actions=acts.total(),
            duration_ms=round(took * 1000),
            overdue_s=self._look.overdue.seconds(),
            open_dead_letters=self._alarms.open_count,
            oldest_dead_letter_s=self._alarms.oldest_s(self.rt.clock()),
        )
        return acts

    def request_pass(self) -> None:
        """Let the next look spare no job."""
        self._next_look = dict.fromkeys(self._next_look, 0.0)

    def _forget(self, ref: JobRef) -> None:
        """Drop what is kept of a job that has ended; most leave the list unseen."""
        self._next_look.pop(ref, None)
        self.sightings.forget(ref)
        self._look.overdue.forget(ref)

    async def _job(self, ref: JobRef) -> Counter[str]:
        """Act on one job; its trouble, such as an odd item, is not the others'."""
        try:
            return await self._act(ref)
        except SchemaTooNewError:
            # It is for the reconciler of that version to see to.
            self._next_look[ref] = asyncio.get_running_loop().time() + IDLE_S
            return Counter()
        except PieceworkError as error:
            telemetry.emit(
                self.log,
                "reconcile.failed",
                level="warning",
                job=ref.job,
                error_code=error.code,
            )
            if error.code in NOTED:
                await self._note(ref, error.code, error.message)
        except MALFORMED_ERRORS:
            telemetry.emit(
                self.log, "reconcile.failed", job=ref.job, error_code=UNREADABLE
            )
            said = f"A row of job {ref.job} cannot be read."
            await self._note(ref, UNREADABLE, said)
        except Exception as error:  # noqa: BLE001 -- logged with its traceback
            code = classify(error).code
            telemetry.emit(self.log, "reconcile.failed", job=ref.job, error_code=code)
        return Counter({"failed": 1})

    async def _note(self, ref: JobRef, code: str, said: str) -> None:
        """Tell those who look at a job that somebody spoiled a record of it."""
        with suppress(Exception):  # its own item may be the spoilt one
            await self.rt.jobs.note(ref, code, said)

    async def _act(self, ref: JobRef) -> Counter[str]:
        self._look.overdue.forget(ref)
        job = await self.rt.jobs.read(ref)
        if job is None or job.status.ended:
            self._forget(ref)
        else:
            self._next_look[ref] = asyncio.get_running_loop().time() + self.pause(job)
        return Counter() if job is None else await reconcile_job(self._look, job)

    async def _drain(self) -> Counter[str]:
        try:
            return await drain(self.rt, self.log)
        except Exception:  # noqa: BLE001 -- logged with its traceback
            telemetry.emit(self.log, "reconcile.drain_failed")
            return Counter({"failed": 1})

    async def _watch_letters(self) -> Counter[str]:
        try:
            return await self._alarms.look(asyncio.get_running_loop().time())
        except Exception:  # noqa: BLE001 -- logged with its traceback
            telemetry.emit(self.log, "reconcile.alarms_failed")
            return Counter({"failed": 1})

    def pause(self, job: Job) -> float:
        """Return the seconds until the next look: the larger the job, the rarer.

        Looking costs read units; the pause keeps them below `reconcile_read_units` a
        second. What waits longer for it is only what no message speaks for; a deadline
        is kept to.
        """
        settings = self.rt.settings
        units = job.chunks * CHUNK_BYTES / UNIT_BYTES
        pause = max(settings.reconcile_s, units / settings.reconcile_read_units)
        if job.status not in CANCELLABLE or job.deadline is None:
            return pause
        return min(pause, max(job.deadline - self.rt.clock(), 0.0))


async def reconcile_once(
    rt: Runtime, log: structlog.stdlib.BoundLogger, *, observe_s: float | None = None
) -> Counter[str]:
    """Run two passes, a lease apart, so that expired leases are detected."""
    reconciler = Reconciler(rt, log)
    with acting_as("reconciler"):
        acts = await reconciler.look()
        if reconciler.sightings.is_watching:
            await asyncio.sleep(rt.settings.lease_s if observe_s is None else observe_s)
            reconciler.request_pass()
            acts += await reconciler.look()
    return acts


async def reconcile_for_ever(
    rt: Runtime,
    log: structlog.stdlib.BoundLogger,
    wake: asyncio.Event | None = None,
    take: Callable[[ChunkRef, int], Awaitable[bool]] = refuse_chunk,
    liveness: Liveness | None = None,
) -> None:
    """Run passes for ever; random pauses keep several reconcilers apart.

    While there is no job it looks rarely, unless `wake` says that there is work. What
    it gives back goes to the worker beside it first, which may `take` it or not.
    """
    liveness = liveness or Liveness()
    reconciler = Reconciler(rt, log, take, liveness)
    wake = wake or asyncio.Event()
    while True:
        liveness.expect_reconciler()
        try:
            with acting_as("reconciler"):
                await reconciler.look()
        except Exception:  # noqa: BLE001 -- logged with its traceback
            telemetry.emit(log, "reconcile.failed")
        pause = rt.settings.reconcile_s * rt.rng.uniform(0.8, 1.2)
        if reconciler.active:
            await asyncio.sleep(pause)
            continue
        wake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(pause, IDLE_S)):
                await wake.wait()
