"""The reconciler's loop: a pass over all active jobs, then a pause."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from piecework import telemetry
from piecework.cost.meter import acting_as
from piecework.domain.job import Job
from piecework.domain.records import MALFORMED_ERRORS, UNREADABLE
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.states import CANCELLABLE, JobStatus
from piecework.errors import PieceworkError, SchemaTooNewError
from piecework.errors.classify import classify
from piecework.jobs.children import follow_parent
from piecework.jobs.pipeline_pauses import follow_pipeline, is_paused_by_pipeline
from piecework.reconciler.chunks import recheck
from piecework.reconciler.collectors import Collectors, oldest_s
from piecework.reconciler.dead_letter_queue import DeadLetterAlarms, drain
from piecework.reconciler.expiry import Expiries
from piecework.reconciler.jobs import reconcile_job
from piecework.reconciler.liveness import LeaseObserver
from piecework.reconciler.pass_state import PassContext, refuse_chunk
from piecework.reconciler.plan import fair_rate, units_of_chunks
from piecework.reconciler.waits import POLL_S, Waits
from piecework.reconciler.watches import Watches
from piecework.runtime import Runtime
from piecework.store.jobs import ActiveMarks
from piecework.telemetry.health import Liveness
from piecework.webhooks.delivery import Deliverer
from piecework.webhooks.sender import Send

if TYPE_CHECKING:
    import structlog

#: The statuses of a job of which a pass reads all chunks.
READ_CHUNKS = frozenset({JobStatus.RUNNING, JobStatus.PAUSED, JobStatus.CANCELLING})
#: Seconds between two passes without an active job.
IDLE_S = 20.0
#: Seconds between two looks at chunks whose worker may be gone.
RECHECK_S = 0.5
#: Errors of a job that only an operator can repair. They are shown on the job.
NOTED = {
    UNREADABLE,
    "job.manifest.mismatch",
    "runtime.object.missing",
    "runtime.payload.corrupt",
}


@dataclass(slots=True)
class Reconciler:
    """One reconciler: its observations, and the next pass of each job."""

    rt: Runtime
    log: structlog.stdlib.BoundLogger
    offer: Callable[[ChunkRef, int], Awaitable[bool]] = refuse_chunk
    liveness: Liveness = field(default_factory=Liveness)
    send: Send | None = None
    active: int = 0
    #: The rows beside the active jobs, as the last pass read them.
    marks: ActiveMarks = field(default_factory=ActiveMarks)
    deliverer: Deliverer = field(init=False)
    _context: PassContext = field(init=False)
    _alarms: DeadLetterAlarms = field(init=False)
    _expiry: Expiries = field(init=False)
    _watches: Watches = field(init=False)
    _waits: Waits = field(init=False)
    _collectors: Collectors = field(init=False)
    _next_pass: dict[JobRef, float] = field(default_factory=dict)
    #: About the read units of a pass over each job.
    _units: dict[JobRef, float] = field(default_factory=dict)
    #: Active jobs whose dead letters climb a ladder; the marks are in the outbox.
    _climbing: set[JobRef] = field(default_factory=set)
    #: Tenants of the pipelines that were paused or resumed before the last pass.
    _repaused: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        alive = self.liveness.expect_reconciler
        self._context = PassContext(self.rt, self.offer, progress=lambda *_: alive())
        self._alarms = DeadLetterAlarms(self.rt, self.log)
        self._expiry = Expiries(self.rt)
        self._watches = Watches(self.rt, self._context.activity)
        self._waits = Waits(self.rt)
        self._collectors = Collectors(self.rt)
        self.deliverer = Deliverer(self.rt, self.log, self.send)

    @property
    def leases(self) -> LeaseObserver:
        """The observed leases of running chunks."""
        return self._context.leases

    async def run_pass(self) -> Counter[str]:
        """Run one pass over all due jobs; return the number of each action."""
        actions: Counter[str] = Counter()
        began = asyncio.get_running_loop().time()
        self.active = 0
        gone, marks = set(self._next_pass), ActiveMarks()
        async for ref in self.rt.jobs.active(marks):
            self.active += 1
            gone.discard(ref)
            self.liveness.expect_reconciler()
            now = asyncio.get_running_loop().time()
            due = self._next_pass.get(ref, 0.0) <= now or self._waits.is_due(ref, now)
            if due or ref.tenant in self._repaused:
                actions += await self._job(ref, self._act)
        self._repaused = {tenant for tenant, _ in marks.paused ^ self.marks.paused}
        self.marks = marks
        for ref in gone:
            self._forget(ref)
        marks.outboxes.update(ref.tenant for ref in self._climbing)
        actions += await self._drain()
        actions += await self._evaluate_alarms(marks.watched)
        actions += await self._expire()
        actions += await self._watch(marks.watched)
        actions += await self._nudge(marks)
        for action, count in actions.items():
            telemetry.emit(self.log, "reconcile.action", action=action, count=count)
        took = asyncio.get_running_loop().time() - began
        collectors = [*marks.collectors.values()]
        known = 0 if collectors else None  # without a lane, no metric is paid for
        telemetry.emit(
            self.log,
            "reconcile.pass",
            jobs=self.active,
            actions=actions.total(),
            duration_ms=round(took * 1000),
            overdue_s=self._context.overdue.seconds(),
            open_dead_letters=self._alarms.open_count,
            backlog=self._context.drawn.left,
            oldest_dead_letter_s=self._alarms.oldest_s(self.rt.clock()),
            batches=sum(each.open_batches for each in collectors) or known,
            batch_rows=sum(each.open_rows for each in collectors) or known,
            batch_age_s=oldest_s(collectors, self.rt.clock()) or known,
        )
        return actions

    async def recheck(self) -> None:
        """Look for ever again at chunks whose worker may be gone, beside the passes."""
        rechecks, now = self._context.rechecks, asyncio.get_running_loop().time
        most = max(1, round(self.rt.settings.reconcile_read_units * RECHECK_S))
        while True:
            await rechecks.some.wait()
            await asyncio.sleep(max(rechecks.next_at() - now(), RECHECK_S))
            for ref, chunks in rechecks.take(now(), most).items():
                await self._job(ref, partial(self._recheck, chunks))

    async def _recheck(self, chunks: list[ChunkRef], ref: JobRef) -> Counter[str]:
        job = await self.rt.jobs.read(ref)
        if job is None or job.status is not JobStatus.RUNNING or job.holds_rest:
            return Counter()
        actions = await recheck(self._context, job, chunks)
        for action, count in actions.items():
            telemetry.emit(self.log, "reconcile.action", action=action, count=count)
        return actions

    def idle_s(self) -> float:
        """Return for how many seconds nothing can be due; 0: a job is active.

        A job whose chunks all wait long counts as idle until its next poll or deadline.
        """
        quiet = self._context.quiet.jobs
        if self.active > len(quiet & self._next_pass.keys()):
            return 0.0
        now = asyncio.get_running_loop().time()
        polls = [poll for ref in quiet if (poll := self._waits.next_poll(ref))]
        passes = [at for ref, at in self._next_pass.items() if ref in quiet]
        return max(min([IDLE_S, *(at - now for at in (*polls, *passes))]), 0.0)

    def request_pass(self) -> None:
        """Include every job in the next pass."""
        self._next_pass = dict.fromkeys(self._next_pass, 0.0)

    def _forget(self, ref: JobRef) -> None:
        """Drop the observations of a job that has ended."""
        self._next_pass.pop(ref, None)
        self._climbing.discard(ref)
        self.leases.forget(ref)
        self._context.overdue.forget(ref)
        self._context.drawn.forget(ref)
        self._context.rechecks.forget(ref)
        self._context.activity.pop(ref, None)
        self._context.units.pop(ref, None)
        self._units.pop(ref, None)
        self._context.quiet.forget(ref)
        self._waits.forget(ref)

    async def _job(
        self, ref: JobRef, act: Callable[[JobRef], Awaitable[Counter[str]]]
    ) -> Counter[str]:
        """Act on one job; its failure does not end the pass over the others."""
        try:
            return await act(ref)
        except SchemaTooNewError:
            # The reconciler of that version handles the job.
            self._next_pass[ref] = asyncio.get_running_loop().time() + IDLE_S
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
            message = f"A row of job {ref.job} cannot be read."
            await self._note(ref, UNREADABLE, message)
        except Exception as error:  # noqa: BLE001 -- logged with its traceback
            code = classify(error).code
            telemetry.emit(self.log, "reconcile.failed", job=ref.job, error_code=code)
        return Counter({"failed": 1})

    async def _note(self, ref: JobRef, code: str, message: str) -> None:
        """Show on the job that an operator must repair one of its records."""
        with suppress(Exception):  # the job's own row may be the malformed one
            await self.rt.jobs.note(ref, code, message)

    async def _act(self, ref: JobRef) -> Counter[str]:
        now = asyncio.get_running_loop().time()
        job = await self.rt.jobs.read(ref)
        if job is None:
            self._forget(ref)
            return Counter()
        if await self._follow(job):
            return Counter({"pipeline followed": 1})
        if done := await self._follow_parent(job, now):
            return Counter({done: 1})
        actions = await self._waits.poll(self._context, job, now)
        if self._next_pass.get(ref, 0.0) > now and not actions.total():
            return actions
        self._context.overdue.forget(ref)
        if not job.status.ended:
            self._next_pass[ref] = now + self.interval_s(job)
            if job.has_ladder:
                self._climbing.add(ref)
        try:
            actions += await reconcile_job(self._context, job)
        except Exception:
            # To the watches, a part of the open chunks would look like progress.
            self._context.activity.pop(ref, None)
            raise
        if job.status.ended:
            self._forget(ref)  # nothing else would drop what this pass saw
        elif ref in self._next_pass:
            at_least = POLL_S if ref in self._context.quiet.jobs else 0.0
            self._next_pass[ref] = now + self.interval_s(job, at_least)
        return actions

    async def _follow(self, job: Job) -> bool:
        """Pause or resume a job as its pipeline was at the last pass."""
        is_paused = (job.ref.tenant, job.pipeline) in self.marks.paused
        must_pause = is_paused and job.status is JobStatus.RUNNING
        if not must_pause and (is_paused or not is_paused_by_pipeline(job)):
            return False
        self._next_pass[job.ref] = 0.0  # also if this fails
        return await follow_pipeline(self.rt, job)

    async def _follow_parent(self, job: Job, now: float) -> str:
        """Let a child do what its parent has done; return what it did."""
        if job.parent is None or self._next_pass.get(job.ref, 0.0) > now:
            return ""
        done = await follow_parent(self.rt, job)
        if done:
            self._next_pass[job.ref] = 0.0
        return done

    async def _drain(self) -> Counter[str]:
        try:
            return await drain(self.rt, self.log)
        except Exception:  # noqa: BLE001 -- logged with its traceback
            telemetry.emit(self.log, "reconcile.dead_letter_queue_failed")
            return Counter({"failed": 1})

    async def _evaluate_alarms(self, tenants: set[str]) -> Counter[str]:
        try:
            now = asyncio.get_running_loop().time()
            return await self._alarms.evaluate(now, tenants)
        except Exception:  # noqa: BLE001 -- logged with its traceback
            telemetry.emit(self.log, "reconcile.alarms_failed")
            return Counter({"failed": 1})

    async def _expire(self) -> Counter[str]:
        try:
            return await self._expiry.run(asyncio.get_running_loop().time())
        except Exception:  # noqa: BLE001 -- logged with its traceback
            telemetry.emit(self.log, "reconcile.failed")
            return Counter({"failed": 1})

    async def _watch(self, tenants: set[str]) -> Counter[str]:
        try:
            return await self._watches.look(tenants, asyncio.get_running_loop().time())
        except Exception:  # noqa: BLE001 -- logged with its traceback
            telemetry.emit(self.log, "reconcile.watch_failed")
            return Counter({"failed": 1})

    async def _nudge(self, marks: ActiveMarks) -> Counter[str]:
        try:
            return await self._collectors.nudge(marks.collectors)
        except Exception:  # noqa: BLE001 -- logged with its traceback
            telemetry.emit(self.log, "reconcile.failed")
            return Counter({"failed": 1})

    def interval_s(self, job: Job, at_least: float = 0.0) -> float:
        """Return the seconds until the next pass; a large job is read less often.

        A pass costs read units; the intervals keep those of all jobs together below
        `reconcile_read_units` a second. Only chunks without a message wait longer. A
        deadline shortens it.
        """
        settings = self.rt.settings
        units = units_of_chunks(job.chunks if job.status in READ_CHUNKS else 1)
        if job.status is JobStatus.RUNNING:
            units = self._context.units.get(job.ref, units)
        self._units[job.ref] = units
        rates = (each / settings.reconcile_s for each in self._units.values())
        rate = fair_rate(rates, settings.reconcile_read_units)
        interval_s = max(settings.reconcile_s, units / rate, at_least)
        if job.status not in CANCELLABLE or job.deadline is None:
            return interval_s
        return min(interval_s, max(job.deadline - self.rt.clock(), 0.0))


async def reconcile_once(
    rt: Runtime, log: structlog.stdlib.BoundLogger, *, observe_s: float | None = None
) -> Counter[str]:
    """Run two passes, a lease apart, so that expired leases are detected."""
    reconciler = Reconciler(rt, log)
    with acting_as("reconciler"):
        actions = await reconciler.run_pass()
        if reconciler.leases.is_watching:
            await asyncio.sleep(rt.settings.lease_s if observe_s is None else observe_s)
            reconciler.request_pass()
            actions += await reconciler.run_pass()
        for tenant in sorted(reconciler.marks.outboxes):
            actions += await reconciler.deliverer.deliver(tenant, stay_s=0.0)
    return actions


async def reconcile_for_ever(
    rt: Runtime,
    log: structlog.stdlib.BoundLogger,
    wake: asyncio.Event | None = None,
    offer: Callable[[ChunkRef, int], Awaitable[bool]] = refuse_chunk,
    liveness: Liveness | None = None,
    send: Send | None = None,
) -> None:
    """Run passes for ever; random pauses keep several reconcilers apart.

    Without a job a pass runs every 20 seconds, or when `wake` is set. The reconciler
    offers each chunk to the worker of this process (`offer`) before it sends a message.
    Deliveries are sent beside the passes; `send` replaces HTTPS in a simulation.
    """
    liveness = liveness or Liveness()
    reconciler = Reconciler(rt, log, offer, liveness, send)
    wake = wake or asyncio.Event()
    with acting_as("reconciler"):
        rechecks = asyncio.create_task(reconciler.recheck())
    try:
        while True:
            await pass_and_pause(reconciler, wake)
    finally:
        rechecks.cancel()
        await asyncio.gather(rechecks, return_exceptions=True)
        await reconciler.deliverer.stop()


async def pass_and_pause(reconciler: Reconciler, wake: asyncio.Event) -> None:
    """Run one pass, start the deliveries, and wait until the next pass."""
    rt = reconciler.rt
    reconciler.liveness.expect_reconciler()
    try:
        with acting_as("reconciler"):
            await reconciler.run_pass()
            reconciler.deliverer.start(reconciler.marks.outboxes)
    except Exception:  # noqa: BLE001 -- logged with its traceback
        telemetry.emit(reconciler.log, "reconcile.failed")
    pause = rt.settings.reconcile_s * rt.rng.uniform(0.8, 1.2)
    idle_s = reconciler.idle_s()
    if not idle_s:
        await asyncio.sleep(pause)
        return
    wake.clear()
    with suppress(TimeoutError):
        async with asyncio.timeout(max(pause, idle_s)):
            await wake.wait()
