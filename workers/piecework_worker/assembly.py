"""Build the objects that a claimed chunk runs with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import structlog
from pydantic import BaseModel

from piecework.calls.admission import Admission
from piecework.calls.attempts import Attempts
from piecework.calls.call import Call
from piecework.calls.caller import Caller
from piecework.calls.equal_calls import EqualCalls
from piecework.calls.usage import ClaimUsage, UsageReporter
from piecework.context import Context, Results
from piecework.domain.claim import Claim
from piecework.domain.effect import Effect
from piecework.domain.job import Job
from piecework.domain.outcome import Outcome, Released
from piecework.domain.protocols import CancelRequest
from piecework.domain.rows import ErrorRow
from piecework.domain.states import JobStatus
from piecework.errors import StoreError
from piecework.jobs.fan_in import Certificate, StoredJobResults
from piecework.pipelines import JOIN, Pipeline, Stage
from piecework.resilience.retry import RetryTime
from piecework.saga.compensation import may_compensate
from piecework.saga.recovery import RecoveryLimits
from piecework.settings import Settings
from piecework.store.cancellation import AT_PIVOT
from piecework.store.checkpoints import ChunkCheckpoints
from piecework.store.completion import JobSnapshot
from piecework.store.effects import EffectLedger
from piecework.store.idempotency import TableIdempotency
from piecework.store.journal import PATIENCE_S, CallJournal, TableResponses
from piecework.store.questions import ChunkQuestions
from piecework_worker.lease import Lease
from piecework_worker.services import WorkerServices
from piecework_worker.stage_runner import WorkerStageRunner

#: The share of `max_runtime_s` after which no call of a claim waits for quota.
QUOTA_SHARE = 0.75
#: Seconds that a call may wait even after that: a start takes a write of the record.
#: Without them a long stage would be deferred before its first call for ever.
LEAST_WAIT_S = 5.0


@dataclass(slots=True)
class ChunkRun:
    """The run of a claimed chunk.

    Attributes:
        lease: The lease of the claim, which interrupts the run.
        pipeline: The chunk's pipeline; for a join, a pipeline with the join as its
            stage.
        error_history: The errors that ended earlier claims.
        loaded: Whether the payload and the records of earlier claims are loaded.
        snapshot: For a loaded join, the snapshot of the job's chunks, all ended.
        certificate: The job's certificate, once this run has ended its join.
        outcome: What the claim ends with; released until the run has another outcome.
        max_calls: The most calls that a worker makes at once.
        possibly_paid: The pure calls of this claim that a lost one may have paid for.
        calls_after_cancel: Calls that ended after the cancel request; None: no cancel.
    """

    claim: Claim
    lease: Lease
    pipeline: Pipeline
    ctx: Context[Any]
    checkpoints: ChunkCheckpoints
    journal: CallJournal
    ledger: EffectLedger
    limits: RecoveryLimits
    questions: ChunkQuestions
    usage: ClaimUsage = field(default_factory=ClaimUsage)
    error_history: list[ErrorRow] = field(default_factory=list)
    loaded: bool = False
    snapshot: JobSnapshot | None = None
    certificate: Certificate | None = None
    outcome: Outcome = field(default_factory=Released)
    calls_after_cancel: int | None = None
    max_calls: int = 1
    possibly_paid: int = 0

    @property
    def cancel_request(self) -> CancelRequest | None:
        """The cancel request that the lease, a checkpoint or an intent has seen."""
        return self.lease.cancel or self.checkpoints.cancel or self.ledger.cancel

    async def write_late(self) -> None:
        """Write what the calls of a lost claim returned and no record has.

        An outage is not waited for: then the bill has these calls as possibly paid.
        """
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await self.ledger.finish_rest(patient=True)
                await self.journal.write_late()


class NoPayload(BaseModel):
    """The payload of a join."""


def build_run(
    lease: Lease,
    job: Job,
    pipeline: Pipeline,
    services: WorkerServices,
    log: structlog.stdlib.BoundLogger,
) -> ChunkRun:
    """Build the run of a claim.

    Some closures read `ctx` and `chunk_run`, which are built later: no call starts
    before the run is complete.
    """
    claim, rt = lease.claim, services.rt
    stages = join_as_pipeline(pipeline) if claim.ref.is_join else pipeline
    usage = ClaimUsage(lambda call: may_be_paid(chunk_run, call))
    journal = CallJournal(
        rt.table,
        rt.objects,
        claim,
        rt.settings,
        rt.clock,
        log,
        usage,
        is_lost=lambda: lease.is_lost,
    )
    ledger = EffectLedger(
        rt.table,
        rt.objects,
        claim,
        rt.clock,
        pivot=stages.pivot_name,
        cancel_of_lease=lambda: lease.cancel,
        usage=usage,
    )
    if claim.chunk.direction == AT_PIVOT:
        ledger.cancel = CancelRequest.read(claim.chunk.item)
    admission = Admission(
        services.call_limiter,
        rt.clock,
        lease.record_progress,
        services.breakers,
        services.limits,
        services.budgets.of_job(job),
        lambda: latest_start(lease, rt.settings),
        release_at=lambda: services.release_at,
    )
    attempts = Attempts(
        retry_time=RetryTime(
            rt.settings.retry_time_s, max_delay=rt.settings.longest_wait_s
        ),
        admission=admission,
        rng=rt.rng,
        clock=rt.clock,
        log=log,
        progress=lease.record_progress,
        check_lease=lease.check_deadline,
        retry_tokens=services.retry_tokens,
        pacer=services.pacer,
        usage=UsageReporter(usage.note, log),
        answered_level=rt.settings.attempt_log,
    )
    questions = ChunkQuestions(rt.table, claim, pipeline.name, rt.clock)
    caller = Caller(
        journal=journal,
        ledger=ledger,
        gen=claim.gen,
        attempts=attempts,
        equal_calls=EqualCalls(
            attempts,
            TableIdempotency(
                rt.table,
                claim.ref.tenant,
                rt.clock,
                clock_skew_s=rt.settings.clock_skew_s,
            ),
            rt.settings.max_runtime_s + rt.settings.lease_s,
            # Past its deadline there may be no time for a write.
            is_lost=lambda: lease.is_lost or (lease.interrupted and not lease.reason),
        ),
        # At its pivot a chunk is interrupted only before the effect has an intent.
        drains_effects=lambda: (
            lease.will_compensate and may_compensate(stages, ctx.stage)
        ),
        responses=TableResponses(rt.table, claim.ref.tenant, rt.clock, log),
        questions=questions,
    )
    caller.in_flight.acquired_at = lease.acquired_at
    facts: dict[str, Any] = {
        "payload": None,
        "pipeline": pipeline.name,
        "stages": pipeline.names,
        "tenant": claim.ref.tenant,
        "job": claim.ref.job,
        "chunk": claim.ref.chunk,
        "attempt": claim.attempt,
        "caller": caller,
        "log": log,
        "run_stage": WorkerStageRunner(lease, services).run,
    }
    ctx: Context[Any]
    if claim.ref.is_join:
        unread = StoredJobResults(rt.table, rt.objects, job.ref, JobSnapshot())
        result_of = pipeline.stages[pipeline.result_index].run
        ctx = Results(**facts, job_results=unread, result_of=result_of)
    else:
        ctx = Context(**facts)
    checkpoints = ChunkCheckpoints(
        rt.table, rt.objects, claim, stages, ledger, rt.clock
    )
    chunk_run = ChunkRun(
        claim=claim,
        lease=lease,
        pipeline=stages,
        ctx=ctx,
        checkpoints=checkpoints,
        journal=journal,
        ledger=ledger,
        questions=questions,
        usage=usage,
        max_calls=rt.settings.max_calls_in_flight,
        limits=RecoveryLimits(
            rt.settings.max_attempts,
            rt.clock,
            rt.rng,
            rt.settings.max_deferrals,
            rt.settings.max_deferred_s,
            rt.settings.free_probe_s,
        ),
    )
    lease.attach(caller.gate)
    caller.gate.leaves_doubt = lambda: ledger.leaves_doubt
    if job.status is JobStatus.CANCELLING:
        # It ends. No pause follows a spent budget, and its calls would wait for ever.
        caller.gate.keep_open()
    # Before the state is loaded, a compensation has nothing to work with.
    lease.is_cancellable = lambda: (
        chunk_run.loaded
        and checkpoints.failure is None
        and (may_compensate(stages, ctx.stage) or waits_at_pivot(chunk_run))
    )
    return chunk_run


def waits_at_pivot(chunk_run: ChunkRun) -> bool:
    """Return whether an effect of the pivot waits, and none has an intent.

    A pivot without such a call may act in a way that the ledger does not know.
    """
    at_pivot = chunk_run.ctx.stage == chunk_run.ledger.pivot
    waits = bool(chunk_run.ctx.caller.effect_drain.tasks)
    return at_pivot and waits and chunk_run.ledger.pivot_is_untouched


def may_be_paid(chunk_run: ChunkRun, call: Call) -> bool:
    """Return whether a lost claim of the chunk may have paid for a call.

    An effect has an intent of that claim then. The journal may lack the last answers of
    a pure call, and what was in flight: at most as much as a worker makes at once.
    """
    chunk = chunk_run.claim.chunk
    compensates = not chunk_run.ctx.caller.counts.forward
    if not chunk.lost_at or not (compensates or call.scope.stage == chunk.lost_at):
        return False
    if call.dependency.effect is not Effect.PURE:
        return chunk_run.ledger.began_earlier(call.key)
    lacked = chunk_run.journal.lacked_by(chunk.lost_fences)
    most = lacked + chunk_run.max_calls
    if call.after >= lacked or chunk_run.possibly_paid >= most:
        return False
    chunk_run.possibly_paid += 1
    return True


def latest_start(lease: Lease, settings: Settings) -> float:
    """Return the loop time until which a call of a claim may wait for quota.

    A claim that has waited until its time is nearly over could not make the call.
    """
    now = asyncio.get_running_loop().time()
    until = lease.started_at + settings.max_runtime_s * QUOTA_SHARE
    return min(max(until, now + LEAST_WAIT_S), now + settings.quota_wait_s)


def join_as_pipeline(pipeline: Pipeline) -> Pipeline:
    """Return a pipeline whose only stage is the join."""
    run: Callable[..., Any] = pipeline.join or default_join
    stage = Stage(run, name=JOIN)
    return Pipeline(
        name=pipeline.name,
        stages=[stage],
        payload=NoPayload,
        owner=pipeline.owner,
        runbook=pipeline.runbook,
        ladder=pipeline.ladder,
    )


async def default_join(ctx: Context[Any]) -> None:
    """Do nothing: the default join of a pipeline, whose job still ends by a join."""
