"""The life of one chunk on this worker, from its work item to its settlement.

    execute      claim_chunk -> build_run -> run_claim -> settle -> end of its message
    run_claim    load_state -> the stages, while the lease is valid

A claim that ends in another way has its outcome from `early_outcomes.py`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from piecework import telemetry
from piecework.aws.payloads import Payloads
from piecework.domain import records
from piecework.domain.chunk import Chunk
from piecework.domain.claim import (
    MAX_RECOVERIES,
    AttemptsExhausted,
    CancelPending,
    Claim,
    LeaseExpired,
    Refusal,
)
from piecework.domain.job import Job
from piecework.domain.outcome import (
    Cancelled,
    CompensationResult,
    DeadLettered,
    Deferred,
    Mapped,
    Outcome,
    Paused,
    Succeeded,
)
from piecework.domain.protocols import ClaimLostError
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.errors import SchemaTooNewError, StoreError
from piecework.jobs.children import tell_parent
from piecework.jobs.fan_out import fan_out
from piecework.jobs.order import unblock_next
from piecework.jobs.tolerance import stop_if_exceeded
from piecework.pipelines import Pipeline
from piecework.runtime import Runtime
from piecework.saga import engine
from piecework.saga.compensation import cancellation_cause, may_compensate
from piecework.settings import Settings
from piecework.store.cancellation import (
    AT_PIVOT,
    FORWARD,
    set_direction,
)
from piecework.store.claims import Claims
from piecework.store.workers import note_takeover
from piecework_worker.assembly import ChunkRun, build_run
from piecework_worker.cancelled_jobs import reason_not_to_claim
from piecework_worker.early_outcomes import (
    compensate_cancelled,
    count_calls_after_cancel,
    last_failure,
    outcome_of_changed_code,
    outcome_of_interrupt,
    outcome_of_load_failure,
    outcome_of_store_error,
    recover_spent,
    with_pivot_untried,
)
from piecework_worker.exhaustion import Exhaustion
from piecework_worker.intake import Intake
from piecework_worker.load_state import load_state
from piecework_worker.refusals import (
    Log,
    handle_refusal,
    leave_to_other_workers,
    log_refusal,
)
from piecework_worker.services import WorkerServices
from piecework_worker.settle import settle
from piecework_worker.work_item import (
    MessageAction,
    WorkItem,
    keep_for_next_attempt,
)


async def execute(
    work_item: WorkItem, job: Job, services: WorkerServices
) -> MessageAction:
    """Claim a chunk, run it and settle it; return what to do with its message.

    If the worker loses the claim, it keeps the message. The chunk's new owner has its
    own message, or this message reappears and finds an ended chunk. No chunk starts
    while another one must be alone in the worker.
    """
    rt, intake = services.rt, services.intake
    async with services.stages.exclusive.shared():
        if job.status is JobStatus.PAUSED or work_item.gen > job.gen:
            # The worker's copy may be older than the resume that sent this message.
            # Only a later resume would send the next one. Or it is of an earlier
            # generation, which was cancelled: then no budget and no pause would hold
            # the calls.
            job = await intake.jobs.fresh(work_item.ref.of) or job
        if reason := await reason_not_to_claim(
            work_item.ref, work_item.gen, job, rt, intake.cancelled_groups
        ):
            log_refusal(work_item, reason, services.log)
            return MessageAction.DELETE
        pipeline = intake.pipeline_of(job)
        if pipeline is None:
            return await leave_to_other_workers(
                work_item, job, rt, intake, services.log
            )
        intake.notes.unknown_in_a_row = 0
        requested_at = asyncio.get_running_loop().time()
        with records.reading(f"Chunk {work_item.ref}"):
            claim = await claim_chunk(
                work_item,
                pipeline,
                intake.code_version(pipeline.name),
                rt,
                services.claims,
                services.log,
            )
        if not isinstance(claim, Claim):
            return await handle_refusal(
                claim, work_item, job, rt, intake.jobs, services.log
            )
        ref, received = work_item.ref, work_item.received
        log = services.log.bind(job=ref.job, chunk=ref.chunk, fence=claim.fence)
        telemetry.emit(
            log,
            "chunk.claimed",
            chunk=ref.chunk,
            fence=claim.fence,
            attempt=claim.attempt,
            receive_count=received,
        )
        receipt = work_item.receipt
        with services.lease_renewer.maintain(claim, receipt, requested_at) as lease:
            chunk_run = build_run(lease, job, pipeline, services, log)
            try:
                await run_claim(
                    chunk_run, job, rt, services.payloads, services.exhaustion
                )
                asked = chunk_run.ctx.caller.batched
                with services.slots.freed():
                    await services.collector.note(claim, asked, job)
                    delay = await settle(chunk_run, job, rt, services.settlements)
                    await follow_children_of(chunk_run, job, rt)
                await services.collector.note(claim, asked, job)
                if isinstance(chunk_run.outcome, Deferred):
                    await intake.notes.blocked(job, chunk_run.outcome)
                if chunk_run.difference:
                    await intake.notes.changed(
                        job, claim.code_version, chunk_run.difference, log
                    )
            except ClaimLostError:
                telemetry.emit(log, "lease.lost", reason=str(lease.reason or "refused"))
                return MessageAction.KEEP
            finally:
                chunk_run.give_back()
        await follow(chunk_run.outcome, claim.chunk, job, rt, intake)
        if delay is not None:
            paused = isinstance(chunk_run.outcome, Paused)
            return await keep_for_next_attempt(
                work_item, delay, job, rt, intake.jobs, paused=paused
            )
        cancelled = chunk_run.calls_after_cancel is not None
        return MessageAction.ACK_CANCELLED if cancelled else MessageAction.ACK


async def follow_children_of(chunk_run: ChunkRun, job: Job, rt: Runtime) -> None:
    """Fan out the child that a claim has started; tell the parent of one that ended.

    A reconciler does what a worker that dies has left.
    """
    outcome, ref = chunk_run.outcome, chunk_run.claim.ref
    with suppress(StoreError):
        if isinstance(outcome, Mapped) and outcome.child.facts is not None:
            child = await rt.jobs.read(JobRef(ref.tenant, outcome.child.job))
            if child is not None and not child.sent_at:
                await fan_out(rt, child)
        if chunk_run.certificate is not None and job.parent is not None:
            await tell_parent(rt, ref.of)


async def follow(
    outcome: Outcome, chunk: Chunk, job: Job, rt: Runtime, intake: Intake
) -> None:
    """Tell the job of the end of a claim, and start the next chunk of its order key."""
    if job.tolerated_chunks and isinstance(outcome, DeadLettered):
        await stop_if_exceeded(rt, job, chunk.gen)
    if isinstance(outcome, Succeeded):
        following = await unblock_next(rt, chunk)
        if following is not None:
            await intake.next_chunks.add(rt, job, following)


async def claim_chunk(
    work_item: WorkItem,
    pipeline: Pipeline,
    code_version: str,
    rt: Runtime,
    claims: Claims,
    log: Log,
) -> Claim | Refusal:
    """Claim a chunk for an attempt, a recovery or a compensation.

    A takeover is two writes: the worker releases the expired lease, then claims.
    """
    ref = work_item.ref
    facts: dict[str, Any] = {
        "gen": work_item.gen,
        "receive_count": work_item.received,
        "code_version": code_version,
    }
    reply = await claims.acquire(ref, **facts)
    if isinstance(reply, LeaseExpired):
        await release_expired(reply.chunk, rt, log)
        reply = await claims.acquire(ref, **facts, last=reply.chunk.fence)
    if isinstance(reply, CancelPending) and reply.chunk.compensate_requested:
        await set_unclaimed_direction(reply.chunk, pipeline, rt)
        reply = await claims.acquire(ref, **facts, last=reply.chunk.fence)
    if isinstance(reply, AttemptsExhausted):
        reply = await claims.acquire_for_recovery(ref, **facts, last=reply.fence)
    return reply


async def release_expired(chunk: Chunk, rt: Runtime, log: Log) -> None:
    """Release an expired lease, unless another process was faster."""
    if await rt.takeovers.release_expired(chunk):
        log = log.bind(job=chunk.ref.job, chunk=chunk.ref.chunk)
        telemetry.emit(
            log,
            "chunk.lease_expired",
            chunk=chunk.ref.chunk,
            claimed_by=chunk.claimed_by,
            takeovers=chunk.takeovers + 1,
        )
        with suppress(StoreError):  # a hint for operators
            await note_takeover(rt.table, chunk.claimed_by, rt.clock())


async def set_unclaimed_direction(
    chunk: Chunk, pipeline: Pipeline, rt: Runtime
) -> None:
    """Set the direction of an unclaimed chunk whose cancel requests compensation.

    A chunk past its pivot goes forward. At its pivot, the intent of the pivot decides.
    """
    stage = chunk.stage
    back = may_compensate(pipeline, stage)
    failure = cancellation_cause(chunk.ref, stage, rt.clock()) if back else None
    otherwise = AT_PIVOT if stage == pipeline.pivot_name else FORWARD
    await set_direction(rt.table, chunk, failure, otherwise)


async def run_claim(
    chunk_run: ChunkRun,
    job: Job,
    rt: Runtime,
    payloads: Payloads,
    exhaustion: Exhaustion,
) -> None:
    """Run a chunk's stages from its last checkpoint, and set the run's outcome.

    Raises:
        ClaimLostError: Another worker owns the chunk; this one must not write.
    """
    lease = chunk_run.lease
    try:
        async with WhileLeased(chunk_run, rt.settings, exhaustion):
            early = await load_state_or_end(chunk_run, job, rt, payloads)
            if early is not None:
                chunk_run.outcome = early
            else:
                chunk_run.outcome = await engine.run(
                    chunk_run.pipeline,
                    chunk_run.ctx,
                    chunk_run.checkpoints,
                    chunk_run.limits,
                )
                chunk_run.outcome = outcome_of_changed_code(chunk_run, rt.settings)
        cancel = chunk_run.state.cancel
        match chunk_run.outcome:
            case Cancelled(stage, None) if cancel is not None and cancel.compensate:
                lease.begin_compensation()
                async with WhileLeased(chunk_run, rt.settings, exhaustion):
                    chunk_run.outcome = await compensate_cancelled(chunk_run, stage)
                    chunk_run.outcome = outcome_of_changed_code(chunk_run, rt.settings)
    except ClaimLostError:
        await chunk_run.write_late()
        raise
    finally:
        chunk_run.ctx.caller.effect_drain.abandon()
    chunk_run.outcome = with_pivot_untried(chunk_run)
    chunk_run.calls_after_cancel = count_calls_after_cancel(chunk_run)


async def load_state_or_end(
    chunk_run: ChunkRun, job: Job, rt: Runtime, payloads: Payloads
) -> Outcome | None:
    """Load the state of earlier claims; return an outcome if no stage may run."""
    try:
        with records.reading(f"A row of chunk {chunk_run.claim.ref}"):
            await load_state(chunk_run, job, rt, payloads)
    except Exception as error:
        if isinstance(error, StoreError) and not isinstance(error, SchemaTooNewError):
            raise
        return outcome_of_load_failure(chunk_run, error, rt.settings)
    chunk_run.state.loaded = True
    claim, failure = chunk_run.claim, chunk_run.checkpoints.failure
    if claim.is_recovery and claim.recoveries > MAX_RECOVERIES:
        cause = failure or last_failure(chunk_run)
        return DeadLettered(cause, CompensationResult.ABANDONED)
    ledger, untried = chunk_run.ledger, chunk_run.ctx.caller.counts.untried
    if ledger.cancel and (untried or ledger.pivot_was_refused):
        return Cancelled(ledger.pivot)
    if claim.is_recovery and failure is None:
        return await recover_spent(chunk_run)
    return None


@dataclass(slots=True)
class WhileLeased:
    """Runs a block until it ends or the lease interrupts it.

    An interrupt becomes the run's outcome. So does a store that does not answer or
    refuses: the stage did not fail.
    """

    chunk_run: ChunkRun
    settings: Settings
    exhaustion: Exhaustion

    async def __aenter__(self) -> None:
        await self.chunk_run.lease.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Leave the lease; return True if the end of the block is an outcome.

        Raises:
            ClaimLostError: Another worker owns the chunk.
        """
        chunk_run = self.chunk_run
        if await chunk_run.lease.__aexit__(kind, error, trace):
            chunk_run.outcome = outcome_of_interrupt(chunk_run, self.settings)
            return True
        if isinstance(error, StoreError):
            log = chunk_run.ctx.log
            telemetry.emit(log, "chunk.store_failed", error_code=error.code)
            self.exhaustion.note(error)
            chunk_run.outcome = outcome_of_store_error(chunk_run, error)
            return True
        return False
