"""Load what a claimed chunk needs, and build the objects that it runs with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import structlog
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from piecework import telemetry
from piecework.aws.objects import MOST_BYTES, PayloadRef
from piecework.calls.attempts import Attempts
from piecework.calls.call import Call
from piecework.calls.caller import Caller
from piecework.calls.equal_calls import EqualCalls
from piecework.calls.usage import ClaimUsage, UsageReporter
from piecework.context import Context, Results
from piecework.domain import values
from piecework.domain.claim import Claim
from piecework.domain.model import Job, moment
from piecework.domain.outcome import Outcome, Released
from piecework.domain.protocols import (
    CancelRequest,
    CancelRequestedError,
    WaitRequestedError,
)
from piecework.domain.records import Bounds, JsonRefusedError, read_json
from piecework.domain.rows import ErrorRow
from piecework.errors import PermanentError
from piecework.errors.classify import classify
from piecework.jobs.fan_in import Certificate, StoredJobResults
from piecework.pipelines import JOIN, RUN, Pipeline, Stage
from piecework.resilience.retry import RetryTime
from piecework.saga.compensation import may_compensate
from piecework.saga.recovery import RecoveryLimits
from piecework.saga.stage import run_in_process
from piecework.settings import Settings
from piecework.store.cancellation import AT_PIVOT
from piecework.store.checkpoints import ChunkCheckpoints, read_work
from piecework.store.completion import JobSnapshot, take_snapshot
from piecework.store.effects import EffectLedger
from piecework.store.idempotency import TableIdempotency
from piecework.store.journal import CallJournal, TableResponses
from piecework.store.questions import ChunkQuestions
from piecework.telemetry.traces import note_payload
from piecework_worker.lease import Lease
from piecework_worker.services import RunningStage, WorkerServices

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

    @property
    def cancel_request(self) -> CancelRequest | None:
        """The cancel request that the lease, a checkpoint or an intent has seen."""
        return self.lease.cancel or self.checkpoints.cancel or self.ledger.cancel


class NoPayload(BaseModel):
    """The payload of a join."""


def build_run(
    lease: Lease,
    job: Job,
    pipeline: Pipeline,
    services: WorkerServices,
    log: structlog.stdlib.BoundLogger,
) -> ChunkRun:
    """Build the run of a claim."""
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
    attempts = Attempts(
        retry_time=RetryTime(
            rt.settings.retry_time_s, max_delay=rt.settings.longest_wait_s
        ),
        slots=services.call_limiter,
        rng=rt.rng,
        clock=rt.clock,
        log=log,
        progress=lease.record_progress,
        check_lease=lease.check_deadline,
        breakers=services.breakers,
        limits=services.limits,
        budgets=services.budgets.of_job(job),
        latest_start=lambda: latest_start(lease, rt.settings),
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
        "pipeline": pipeline,
        "tenant": claim.ref.tenant,
        "job": claim.ref.job,
        "chunk": claim.ref.chunk,
        "attempt": claim.attempt,
        "caller": caller,
        "log": log,
        "runner": WorkerStageRunner(lease, services),
    }
    ctx: Context[Any]
    if claim.ref.is_join:
        unread = StoredJobResults(rt.table, rt.objects, job.ref, JobSnapshot(()))
        ctx = Results(**facts, job_results=unread)
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

    It may have made any call of the stage that it was at, and its last answers may not
    be in the journal. Of a compensation only the ledger knows the stage.
    """
    lost_at = chunk_run.claim.chunk.lost_at
    compensates = not chunk_run.ctx.caller.counts.forward
    return bool(lost_at) and (compensates or call.scope.stage == lost_at)


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
    )


async def default_join(ctx: Context[Any]) -> None:
    """Do nothing: the default join of a pipeline, whose job still ends by a join."""


# ── run the stages of a claim ─────────────────────────────────────────────────
#
# The stages of a suspect chunk run in a child: if they kill or block their process
# again, the worker and its other chunks live on, and the failure is the chunk's own.
#
# It also measures the duration of each stage. A stopping worker uses the durations to
# decide which stages it waits for.


RunStage: TypeAlias = Callable[[Stage, Context[Any], str], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class WorkerStageRunner:
    """Run the stages of a claim."""

    lease: Lease
    services: WorkerServices

    async def run(self, stage: Stage, ctx: Context[Any], variant: str = RUN) -> str:
        """Run one variant of a stage, or its compensation; return its value as JSON."""
        services, now = self.services, asyncio.get_running_loop().time
        run, claim = self.runner_of(stage, ctx), self.lease.claim
        alone = claim.is_suspect and run is run_in_process
        under_way = RunningStage(ctx.pipeline.name, ctx.stage, now())
        services.running_stages[claim.token] = under_way
        code, outcome = "", "interrupted"
        try:
            with services.blocked_loop.watch(stage, ctx):
                async with (
                    services.exclusive.alone(self.lease.waiting)
                    if alone
                    else nullcontext()
                ):
                    value = await run(stage, ctx, variant)
            outcome = "returned"
        except (CancelRequestedError, WaitRequestedError):
            raise
        except Exception as error:
            # A function that was left for a wait or a cancel has not failed.
            left = CancelRequestedError | WaitRequestedError
            if not isinstance(ctx.caller.stop_reason, left):
                code, outcome = classify(error).code, "failed"
            raise
        finally:
            del services.running_stages[claim.token]
            telemetry.emit(
                ctx.log,
                "stage.ended",
                stage=stage.name,
                variant=variant,
                outcome=outcome,
                duration_ms=round((now() - under_way.started_at) * 1000),
                error_code=code,
            )
        services.stage_durations.record(under_way, now())
        return value

    def runner_of(self, stage: Stage, ctx: Context[Any]) -> RunStage:
        """Return what runs the stage without harm to the worker's other chunks.

        A join runs in the worker, because it streams the results of its job.
        """
        isolation, loop = self.services.isolation, self.services.blocked_loop
        if isolation is None or isinstance(ctx, Results):
            return run_in_process
        if stage.isolate:
            return isolation.run
        blocks = (ctx.pipeline.name, stage.name) in loop.stages
        if blocks or self.lease.claim.is_suspect:
            return partial(isolation.run_suspect, waiting=self.lease.waiting)
        return run_in_process


# ── load what a claimed chunk needs ───────────────────────────────────────────

#: The bounds of one chunk's payload: plain JSON data, whatever its source.
BOUNDS = Bounds(MOST_BYTES)
#: Field paths that an error message names at most.
SHOWN = 5


async def load_state(chunk_run: ChunkRun, job: Job, services: WorkerServices) -> None:
    """Load the state of a chunk run; a first claim needs at most one read.

    Raises:
        PieceworkError: The payload or a checkpoint does not match its record.
    """
    if not chunk_run.claim.is_first:
        await load_progress(chunk_run, services)
    if isinstance(chunk_run.ctx, Results):
        rt = services.rt
        # Cached here if this worker started to finish the job.
        snapshot = rt.snapshots.take(job.ref, chunk_run.claim.gen)
        if snapshot is None:
            snapshot = await take_snapshot(rt.table, job.ref, job.chunks)
        chunk_run.snapshot = snapshot
        chunk_run.ctx.job_results = StoredJobResults(
            rt.table, rt.objects, job.ref, snapshot
        )
    else:
        await load_payload(chunk_run, services)


async def load_progress(chunk_run: ChunkRun, services: WorkerServices) -> None:
    """Load the checkpoints, calls, effects and errors of earlier claims."""
    work = await read_work(services.rt.table, chunk_run.claim.ref)
    chunk = chunk_run.claim.chunk
    counts = chunk_run.ctx.caller.counts
    counts.deferrals, counts.failed_probes = chunk.deferrals, chunk.failed_probes
    counts.breaker_deferrals = chunk.breaker_deferrals
    counts.budget_deferrals = chunk.budget_deferrals
    if chunk.breaker_since:
        counts.breaker_since = moment(chunk.breaker_since)
    if chunk.pivot_untried_fence == chunk_run.claim.fence - 1:
        counts.untried = chunk.stage
    chunk_run.error_history = work.errors
    chunk_run.ledger.load(work.effects)
    chunk_run.ctx.caller.in_flight.note_earlier_claim(chunk_run.ledger.in_flight_s)
    await chunk_run.journal.load(work.calls)
    chunk_run.questions.load(work.questions)
    await chunk_run.checkpoints.load(work)


async def load_payload(chunk_run: ChunkRun, services: WorkerServices) -> None:
    """Read, check and validate the payload.

    Raises:
        PermanentError: `runtime.payload.invalid`: the payload does not fit the
            pipeline's model, which must have changed since the submit. The message
            names the fields but never contains their values.
    """
    chunk, model = chunk_run.claim.chunk, chunk_run.pipeline.payload
    content = await services.payloads.read(
        chunk.ref.tenant,
        chunk.ref.job,
        PayloadRef.parse(chunk.payload),
        chunk.payload_sha256,
    )
    try:
        read_json(content, BOUNDS)
        chunk_run.ctx.payload = values.read_payload(model, content)
        note_payload(chunk_run.ctx.payload)
    except JsonRefusedError as error:
        message = f"The payload cannot be read: {error}."
        raise PermanentError(message, code="runtime.payload.invalid") from error
    except ValidationError as error:
        fields = sorted({field_path(e, model) for e in error.errors()})
        message = f"The payload does not fit {model.__name__}: {fields[:SHOWN]}."
        raise PermanentError(message, code="runtime.payload.invalid") from error


def field_path(detail: ErrorDetails, model: type[BaseModel]) -> str:
    """Return the path of an invalid field, with `*` for each name outside the model.

    A mapping key or an extra field name is customer data, so the message omits it.
    """
    first, *inner = detail["loc"] or ("payload",)
    known = str(first) if first in {"payload", *model.model_fields} else "*"
    return ".".join([known, *(str(n) if isinstance(n, int) else "*" for n in inner)])
