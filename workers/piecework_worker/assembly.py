"""Build the objects that a claimed chunk runs with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import structlog
from pydantic import BaseModel

from piecework.calls.batched import BatchedCalls
from piecework.calls.caller import Caller
from piecework.calls.equal_calls import EqualCalls
from piecework.calls.pause_gate import PauseGate
from piecework.calls.usage import ClaimUsage
from piecework.context import Context, Results
from piecework.domain.claim import Claim
from piecework.domain.job import Job
from piecework.domain.outcome import Outcome, Released
from piecework.domain.protocols import CancelRequest
from piecework.domain.rows import ErrorRow
from piecework.domain.shape import Shape
from piecework.domain.states import JobStatus
from piecework.errors import StoreError
from piecework.jobs.fan_in import Certificate, StoredJobResults
from piecework.pipelines import JOIN, Pipeline, Stage
from piecework.runtime import Runtime
from piecework.saga.recovery import RecoveryLimits
from piecework.saga.shape import shape_of
from piecework.store.cancellation import AT_PIVOT
from piecework.store.checkpoints import ChunkCheckpoints
from piecework.store.completion import JobSnapshot
from piecework.store.effects import EffectLedger
from piecework.store.idempotency import TableIdempotency
from piecework.store.journal import PATIENCE_S, CallJournal, TableResponses
from piecework.store.questions import ChunkQuestions
from piecework_worker.children import ChunkChildren
from piecework_worker.claim_state import ClaimState
from piecework_worker.lease import Lease
from piecework_worker.services import WorkerServices
from piecework_worker.stage_runner import StageRuns, WorkerStageRunner


@dataclass(slots=True)
class ChunkRun:
    """The run of a claimed chunk.

    Attributes:
        state: What its parts ask about the claim.
        pipeline: The chunk's pipeline; for a join, a pipeline with the join as its
            stage.
        shape: The shape of the pipeline; for a join, of that with the chunks.
        error_history: The errors that ended earlier claims.
        snapshot: For a loaded join, the snapshot of the job's chunks, all ended.
        certificate: The job's certificate, once this run has ended its join.
        outcome: What the claim ends with; released until the run has another outcome.
        difference: What differs in the shape of the pipeline since the submit; empty:
            nothing.
        calls_after_cancel: Calls that ended after the cancel request; None: no cancel.
    """

    claim: Claim
    lease: Lease
    state: ClaimState
    pipeline: Pipeline
    shape: Shape
    ctx: Context[Any]
    checkpoints: ChunkCheckpoints
    journal: CallJournal
    ledger: EffectLedger
    limits: RecoveryLimits
    questions: ChunkQuestions
    error_history: list[ErrorRow] = field(default_factory=list)
    snapshot: JobSnapshot | None = None
    certificate: Certificate | None = None
    outcome: Outcome = field(default_factory=Released)
    difference: str = ""
    calls_after_cancel: int | None = None

    def give_back(self) -> None:
        """Give back what was reserved for batches that the claim has not asked."""
        if (batched := self.ctx.caller.batched) is not None:
            batched.give_back()

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
    """Build the run of a claim: its records, its state, then what makes its calls."""
    claim, rt = lease.claim, services.rt
    table, objects, clock, settings = rt.table, rt.objects, rt.clock, rt.settings
    stages = join_as_pipeline(pipeline) if claim.ref.is_join else pipeline
    usage = ClaimUsage()
    journal = CallJournal(
        *(table, objects, claim, settings, clock, log, usage, lease.is_lost),
        code_version=claim.code_version,
    )
    at_pivot = claim.chunk.direction == AT_PIVOT
    ledger = EffectLedger(
        table,
        objects,
        claim,
        clock,
        pivot=stages.pivot_name,
        cancel=CancelRequest.read(claim.chunk.item) if at_pivot else None,
        cancel_of_lease=lease.seen_cancel,
        usage=usage,
        code_version=claim.code_version,
    )
    shape = shape_of(pipeline)
    checkpoints = ChunkCheckpoints(table, objects, claim, stages, ledger, clock)
    checkpoints.shape = text if (text := shape.write()) != job.shape else ""
    questions = ChunkQuestions(table, claim, pipeline.name, clock)
    # A job that is cancelled ends. No pause follows a spent budget, and its calls would
    # wait for ever.
    ends = job.status is JobStatus.CANCELLING
    gate = PauseGate(lease.on_nothing_in_flight, always_open=ends)
    state = ClaimState(
        lease, stages, settings, checkpoints, ledger, journal, usage, gate
    )
    lease.work = state
    calls = services.calls
    attempts = calls.attempts_of(state, calls.budgets.of_job(job), rt, log)
    journal.recorder = attempts.recorder
    caller = Caller(
        journal=journal,
        ledger=ledger,
        gen=claim.gen,
        attempts=attempts,
        equal_calls=EqualCalls(
            attempts,
            TableIdempotency(
                table, claim.ref.tenant, clock, clock_skew_s=settings.clock_skew_s
            ),
            settings.max_runtime_s + settings.lease_s,
            is_lost=state.has_no_time_to_write,
        ),
        drains_effects=state.completes_effects,
        goes_direct=bool(job.lane),
        batched=BatchedCalls(claim.gen, clock),
        responses=TableResponses(table, claim.ref.tenant, clock, log),
        questions=questions,
        children=ChunkChildren(
            rt, claim, job, services.intake.pipelines, services.intake.code_versions
        ),
        effect_drain=state.drain,
    )
    return ChunkRun(
        claim=claim,
        lease=lease,
        state=state,
        pipeline=stages,
        shape=shape,
        ctx=new_context(rt, lease, pipeline, caller, services.stages, log),
        checkpoints=checkpoints,
        journal=journal,
        ledger=ledger,
        questions=questions,
        limits=RecoveryLimits(
            settings.max_attempts,
            clock,
            rt.rng,
            settings.max_deferrals,
            settings.max_deferred_s,
            settings.free_probe_s,
        ),
    )


def new_context(
    rt: Runtime,
    lease: Lease,
    pipeline: Pipeline,
    caller: Caller,
    stages: StageRuns,
    log: structlog.stdlib.BoundLogger,
) -> Context[Any]:
    """Return the context of a claim, whose payload is not loaded yet."""
    claim = lease.claim
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
        "run_stage": WorkerStageRunner(lease, stages).run,
    }
    if not claim.ref.is_join:
        return Context(**facts)
    unread = StoredJobResults(rt.table, rt.objects, claim.ref.of, JobSnapshot())
    result_of = pipeline.stages[pipeline.result_index].run
    return Results(**facts, job_results=unread, result_of=result_of)


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
