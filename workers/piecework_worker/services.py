"""What one worker process has once: the process gives it to the worker's parts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from piecework.aws.payloads import Payloads
from piecework.calls.fleet_breaker import BreakerRegistry
from piecework.calls.fleet_budgets import FleetBudgets
from piecework.calls.fleet_limits import FleetLimits
from piecework.domain.job import Job
from piecework.domain.refs import ChunkRef
from piecework.pipelines import Pipeline
from piecework.runtime import Runtime
from piecework.store.breakers import Breakers
from piecework.store.claims import Claims
from piecework.store.limits import Quotas
from piecework.store.settlements import Settlements
from piecework.telemetry.health import Liveness
from piecework.telemetry.traces import Traces, open_traces
from piecework_worker.batches import Collector
from piecework_worker.budget_pause import pause_for_budget
from piecework_worker.call_limiter import CallLimiter
from piecework_worker.exhaustion import Exhaustion
from piecework_worker.intake import Intake
from piecework_worker.isolation.pool import Isolation
from piecework_worker.job_cache import JobCache
from piecework_worker.job_notes import JobNotes
from piecework_worker.lease import LeaseRenewer
from piecework_worker.next_chunks import NextChunks
from piecework_worker.shared_calls import SharedCalls
from piecework_worker.slots import Slots
from piecework_worker.stage_runner import StageRuns
from piecework_worker.tenant_caps import TenantCaps


@dataclass(slots=True)
class WorkerServices:
    """The parts of one worker.

    Attributes:
        traces: Makes the traces of claims; None: the program sends none.
        exhaustion: Ends a worker that lacks what a process needs.
        message_received: Set when a message arrives: wakes an idle reconciler beside
            the worker.
    """

    rt: Runtime
    worker: str
    log: structlog.stdlib.BoundLogger
    intake: Intake
    claims: Claims
    lease_renewer: LeaseRenewer
    payloads: Payloads
    settlements: Settlements
    calls: SharedCalls
    stages: StageRuns
    liveness: Liveness
    exhaustion: Exhaustion
    slots: Slots
    collector: Collector
    traces: Traces | None = None
    message_received: asyncio.Event = field(default_factory=asyncio.Event)

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
            code_version=self.intake.code_version(job.pipeline),
        )


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
    code_versions: Mapping[str, str] | None = None,
) -> WorkerServices:
    """Build the services of a worker.

    `queues`: default: those of its pipelines; `code_versions`: that of each pipeline.
    """
    settings, clock = rt.settings, rt.clock
    liveness = Liveness()
    renewer = LeaseRenewer(
        Claims(rt.renewal_table, settings, worker, clock, rt.rng),
        rt.renewal_queues,
        settings,
        log,
        liveness,
    )
    jobs, next_chunks = JobCache(rt), NextChunks()
    limits = FleetLimits(
        clock, rt.rng, log, Quotas(rt.table, worker, clock, rt.rng), worker
    )
    pause = partial(pause_for_budget, rt, jobs, renewer)
    budgets = FleetBudgets(rt.budgets, worker, clock, rt.rng, log, pause)
    collector = Collector(rt, worker, budgets, log)
    collector.learn(pipelines.values())
    breakers = Breakers(rt.table, worker, clock, limits.adopt, budgets.adopt)
    return WorkerServices(
        rt=rt,
        worker=worker,
        log=log,
        intake=Intake(
            pipelines,
            queues or queues_of(pipelines.values()),
            jobs,
            JobNotes(rt.jobs, worker, clock),
            TenantCaps(limits, next_chunks.wake.set),
            next_chunks,
            code_versions or {},
        ),
        claims=Claims(rt.table, settings, worker, clock, rt.rng),
        lease_renewer=renewer,
        payloads=Payloads(rt.objects),
        settlements=Settlements(rt.table, rt.dead_letters, settings, clock),
        calls=SharedCalls(
            CallLimiter(settings.max_calls_in_flight),
            BreakerRegistry(clock, rt.rng, log, breakers),
            limits,
            budgets,
        ),
        stages=StageRuns(isolation),
        liveness=liveness,
        exhaustion=Exhaustion(log),
        slots=Slots(settings.max_chunks),
        collector=collector,
        traces=open_traces(clock, worker, settings.trace_ratio, settings.trace_fields),
    )
