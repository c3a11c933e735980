"""The services that all chunks of one worker share."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from math import inf
from statistics import median
from typing import Any

import structlog

from piecework import telemetry
from piecework.aws.payloads import Payloads
from piecework.calls.attempts import new_token_buckets
from piecework.calls.fleet_breaker import BreakerRegistry
from piecework.calls.fleet_budgets import FleetBudgets
from piecework.calls.fleet_limits import FleetLimits
from piecework.calls.in_flight import CallPacer
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.outcome import NEWER_WORKERS, STORE, WORKER, Deferred
from piecework.domain.pause import Pause
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.states import JobStatus
from piecework.errors import StoreError
from piecework.pipelines import Pipeline
from piecework.resilience.breaker import BreakerPhase, BreakerState
from piecework.resilience.budget import BudgetKey
from piecework.resilience.limits import DEPENDENCY_PAUSED_CODE
from piecework.resilience.retry import RetryTokenBucket
from piecework.runtime import Runtime
from piecework.saga.recovery import retry_after
from piecework.store.breakers import Breakers
from piecework.store.claims import Claims
from piecework.store.dead_letters import DeadLetters
from piecework.store.limits import Quotas
from piecework.store.settlements import Settlements
from piecework.telemetry.emf import Gauge
from piecework.telemetry.health import Liveness
from piecework.telemetry.metrics import BY_FIELD
from piecework.telemetry.traces import Traces, open_traces
from piecework_worker.call_limiter import CallLimiter
from piecework_worker.cancel_poller import apply_status
from piecework_worker.cancelled_jobs import CancelledGroups
from piecework_worker.exclusive_claims import ExclusiveClaims
from piecework_worker.exhaustion import Exhaustion
from piecework_worker.isolation.pool import Isolation
from piecework_worker.job_cache import JOB_CACHE_SIZE, JobCache
from piecework_worker.lease import LeaseRenewer
from piecework_worker.loop_watchdog import BlockedLoop
from piecework_worker.next_chunks import NextChunks
from piecework_worker.tenant_caps import TenantCaps

# ── gauges of a worker's metrics ──────────────────────────────────────────────

#: Seconds after which an open breaker whose open time has passed is no longer counted.
#: Without a new call in that time, no chunk uses the dependency any more.
UNTRIED_S = 300.0


def gauges(services: WorkerServices) -> Iterator[Gauge]:
    """Yield the current value of each gauge."""
    yield Gauge("ChunksInProgress", len(services.lease_renewer.leases))
    yield Gauge("CallsInFlight", services.call_limiter.in_use)
    since = services.breakers.clock() - UNTRIED_S
    known = list(services.breakers.by_name.items())  # another thread may ask
    open_names = [name for name, each in known if is_open(each.state, since)]
    yield Gauge("BreakersOpen", len(open_names))
    for name in open_names:
        yield Gauge("BreakersOpen", 1, (BY_FIELD["dependency"], name))


def is_open(state: BreakerState, since: float) -> bool:
    """Return whether the breaker rejects calls, or had a failed probe since `since`."""
    tried_until = max(state.open_until, state.probe_until)
    return state.phase is not BreakerPhase.CLOSED and tried_until > since


# ── stage durations ───────────────────────────────────────────────────────────

#: Samples kept per stage, and the fewest samples for an estimate.
MAX_SAMPLES = 20
MIN_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class RunningStage:
    """A running stage and its start."""

    pipeline: str
    stage: str
    started_at: float


@dataclass(slots=True)
class StageDurations:
    """The durations of one worker's stages in seconds."""

    _durations: dict[tuple[str, str], deque[float]] = field(default_factory=dict)

    def record(self, under_way: RunningStage, now: float) -> None:
        """Record the duration of a stage that succeeded."""
        key = under_way.pipeline, under_way.stage
        durations = self._durations.setdefault(key, deque(maxlen=MAX_SAMPLES))
        durations.append(now - under_way.started_at)

    def may_finish_by(self, under_way: RunningStage, now: float, until: float) -> bool:
        """Return whether a stage may end before `until`.

        A stage that has run longer than its median may end at any moment.
        """
        durations = self._durations.get((under_way.pipeline, under_way.stage), ())
        if len(durations) < MIN_SAMPLES:
            return True
        ends_at = under_way.started_at + median(durations)
        return ends_at <= max(now, until)


@dataclass(slots=True)
class WorkerServices:
    """The services of one worker."""

    rt: Runtime
    worker: str
    pipelines: Mapping[str, Pipeline]
    #: The queues that the worker receives from, as pipelines name them.
    queues: Sequence[str]
    log: structlog.stdlib.BoundLogger
    claims: Claims
    settlements: Settlements
    dead_letters: DeadLetters
    payloads: Payloads
    lease_renewer: LeaseRenewer
    call_limiter: CallLimiter
    breakers: BreakerRegistry
    limits: FleetLimits
    budgets: FleetBudgets
    liveness: Liveness = field(default_factory=Liveness)
    retry_tokens: defaultdict[str, RetryTokenBucket] = field(
        default_factory=new_token_buckets
    )
    pacer: CallPacer = field(default_factory=CallPacer)
    #: Makes the traces of claims; None: the program sends none.
    traces: Traces | None = None
    #: Runs isolated stages; None: they run in this process.
    isolation: Isolation | None = None
    #: Ends a worker that lacks what a process needs.
    exhaustion: Exhaustion = field(init=False)
    #: Lets a suspect run alone that cannot run in a child.
    exclusive: ExclusiveClaims = field(default_factory=ExclusiveClaims)
    #: Knows which stage runs on the event loop, and which stages have blocked it.
    blocked_loop: BlockedLoop = field(default_factory=BlockedLoop)
    #: The running stage of each claim, by token, and the durations of earlier stages.
    running_stages: dict[str, RunningStage] = field(default_factory=dict)
    stage_durations: StageDurations = field(default_factory=StageDurations)
    #: Set when a message arrives: wakes an idle reconciler beside the worker.
    message_received: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled_groups: CancelledGroups = field(default_factory=CancelledGroups)
    #: The next chunks of order keys, which this worker starts itself.
    next_chunks: NextChunks = field(default_factory=NextChunks)
    #: Loop time at which the worker, once it stops, interrupts its chunks.
    release_at: float = inf
    #: Messages in a row whose pipeline this worker does not have.
    unknown_in_a_row: int = 0
    _noted_unknown: set[JobRef] = field(default_factory=set)
    _noted_blocked: dict[tuple[JobRef, str], float] = field(default_factory=dict)
    jobs: JobCache = field(init=False)
    caps: TenantCaps = field(init=False)

    def __post_init__(self) -> None:
        """Let a free slot of a tenant wake the receiver."""
        self.exhaustion = Exhaustion(self.log)
        self.jobs = JobCache(self.rt)
        self.caps = TenantCaps(self.limits, self.next_chunks.wake.set)

    def tracing(
        self, ref: ChunkRef, job: Job, message_id: str
    ) -> AbstractContextManager[None]:
        """Return what records the trace of a claim, if the program sends traces."""
        if self.traces is None:
            return nullcontext()
        return self.traces.of_claim(
            *(ref.tenant, ref.job, ref.chunk),
            job.traceparent,
            gen=job.gen,
            pipeline=job.pipeline,
            queue=self.rt.settings.queue_name(job.queue),
            message_id=message_id,
        )

    async def pause_for_budget(
        self, ref: JobRef, pause: Pause, key: BudgetKey, seen: int
    ) -> None:
        """Pause a job whose budget is spent, and keep back its calls here at once."""
        with suppress(StoreError):
            job = await self.jobs.fresh(ref)
            if job is not None and job.status is JobStatus.RUNNING:
                also = [self.rt.budgets.unchanged(key, seen)]
                if await self.rt.transitions.pause(job, pause, also):
                    telemetry.emit(
                        self.log, "budget.spent", job=ref.job, message=pause.message
                    )
                job = await self.jobs.fresh(ref)
            if job is not None:
                leases = self.lease_renewer.leases.values()
                apply_status(job, [each for each in leases if each.claim.ref.of == ref])

    async def note_unknown_pipeline(self, job: Job) -> None:
        """Note on the job, once, that this worker does not have its pipeline."""
        if job.ref not in self._noted_unknown:
            if len(self._noted_unknown) >= JOB_CACHE_SIZE:
                self._noted_unknown.clear()
            self._noted_unknown.add(job.ref)
            reason = f"worker {self.worker} does not have pipeline {job.pipeline}"
            with suppress(StoreError):
                await self.rt.jobs.note(job.ref, "runtime.pipeline.unknown", reason)

    async def note_blocked(self, job: Job, deferred: Deferred) -> None:
        """Note on the job what blocks it, once for each deferral period."""
        name, now = deferred.blocked_on, self.rt.clock()
        if self._noted_blocked.get((job.ref, name), now) > now:
            return
        until = now + retry_after(deferred.failure)
        if len(self._noted_blocked) >= JOB_CACHE_SIZE:
            self._noted_blocked.clear()
        self._noted_blocked[job.ref, name] = until
        blocker = (
            name if name in {NEWER_WORKERS, STORE, WORKER} else f"dependency {name}"
        )
        reason = f"waits for {blocker} until {iso(until)}"
        if deferred.failure.code == DEPENDENCY_PAUSED_CODE:
            reason = deferred.failure.message  # it names the operator and the reason
        with suppress(StoreError):
            await self.rt.jobs.note(job.ref, deferred.failure.code, reason, until)


def queues_of(pipelines: Iterable[Pipeline]) -> list[str]:
    """Return the queues of pipelines; without a pipeline, the default queue."""
    return sorted({pipeline.queue for pipeline in pipelines}) or [""]


def open_services(
    rt: Runtime,
    worker: str,
    pipelines: Mapping[str, Pipeline],
    log: Any,
    isolation: Isolation | None = None,
    queues: Sequence[str] = (),
) -> WorkerServices:
    """Build the services of a worker; `queues`: default: those of its pipelines."""
    settings, clock = rt.settings, rt.clock
    renewal_claims = Claims(rt.renewal_table, settings, worker, clock, rt.rng)
    liveness = Liveness()
    quotas = Quotas(rt.table, worker, clock, rt.rng)
    limits = FleetLimits(clock, rt.rng, log, quotas, worker)
    budgets = FleetBudgets(rt.budgets, worker, clock, rt.rng, log)
    breakers = Breakers(rt.table, worker, clock, limits.adopt, budgets.adopt)
    services = WorkerServices(
        rt=rt,
        worker=worker,
        pipelines=pipelines,
        queues=queues or queues_of(pipelines.values()),
        log=log,
        claims=Claims(rt.table, settings, worker, clock, rt.rng),
        settlements=Settlements(rt.table, rt.dead_letters, settings, clock),
        dead_letters=DeadLetters(rt.dead_letters, settings, clock),
        payloads=Payloads(rt.objects),
        lease_renewer=LeaseRenewer(
            renewal_claims, rt.renewal_queues, settings, log, liveness
        ),
        call_limiter=CallLimiter(settings.max_calls_in_flight),
        breakers=BreakerRegistry(clock, rt.rng, log, breakers),
        limits=limits,
        budgets=budgets,
        liveness=liveness,
        isolation=isolation,
        traces=open_traces(clock, worker, settings.trace_ratio, settings.trace_fields),
    )
    services.budgets.pause_job = services.pause_for_budget
    return services


def receive_wait_s(rt: Runtime) -> int:
    """Return the seconds of a long poll; a stop waits for the poll to end.

    On loopback a request costs nothing, and a developer expects Ctrl-C to work soon.
    """
    longest = rt.settings.long_poll_s
    return min(longest, 2) if rt.endpoint.loopback else longest
