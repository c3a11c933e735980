"""Write an outcome exactly once, if this worker still owns the claim."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import asdict
from itertools import count
from typing import Any

import structlog

from piecework import telemetry
from piecework.domain import keys
from piecework.domain.call_record import pack_for_row, read_records
from piecework.domain.child import LOOK_S
from piecework.domain.job import Job
from piecework.domain.kept_call import pack_kept
from piecework.domain.ladder import Climb
from piecework.domain.moments import iso, moment
from piecework.domain.outcome import (
    Asking,
    Batching,
    Cancelled,
    DeadLettered,
    Deferred,
    Mapped,
    Outcome,
    Paused,
    Released,
    Retry,
    Sleeping,
    Succeeded,
)
from piecework.domain.protocols import ClaimLostError
from piecework.errors import StoreError
from piecework.errors.codes import own_meaning
from piecework.jobs.fan_in import (
    Certificate,
    certify,
    store_certificate,
    unstable_facts,
)
from piecework.runtime import Runtime
from piecework.store.completion import take_snapshot
from piecework.store.dead_letters import DeadLetters
from piecework.store.ladders import start_writes
from piecework.store.results import NULL, fits_inline
from piecework.store.settlements import Calls, Settlements
from piecework.store.table import ItemWrite
from piecework_worker.assembly import ChunkRun
from piecework_worker.early_outcomes import outcome_of_store_error

#: How often a worker writes an outcome during an outage of the store. After
#: `DEFERRED_FROM` writes it defers the chunk instead. The outage may concern only the
#: bucket, which a deferral does not need. The worker then gives up what needs it.
SETTLE_ATTEMPTS = 7
DEFERRED_FROM = 5
#: Seconds between two of these writes, at most: `RETRY_S` doubled each time.
RETRY_S = 1.0
#: The outcomes after which another claim of the chunk follows.
GOES_ON = Retry | Deferred | Released | Paused | Sleeping | Batching | Asking | Mapped
#: The attribute of a chunk that has the records of its calls.
ROW = "call_records"


async def settle(
    chunk_run: ChunkRun, job: Job, rt: Runtime, settlements: Settlements
) -> float | None:
    """Write the outcome of a run; return the seconds until the next attempt, or None.

    During an outage of the store the worker repeats the write and keeps its lease. The
    fence shows whether an earlier write was applied. If a deferral is refused, the
    worker writes the first outcome again: it may have been applied.

    Raises:
        ClaimLostError: Another worker owns the chunk and settles it.
        StoreError: The outage lasts longer, or AWS refused this one request.
    """
    first = chunk_run.outcome
    for number in count(1):
        try:
            patient = number <= DEFERRED_FROM
            return await settle_once(chunk_run, job, rt, settlements, patient=patient)
        except ClaimLostError:
            if chunk_run.outcome is first:
                raise
            chunk_run.outcome = first
        except StoreError as error:
            if not error.is_outage or number >= SETTLE_ATTEMPTS:
                raise
            log = chunk_run.ctx.log
            telemetry.emit(log, "chunk.settle_failed", error_code=error.code)
            if number == DEFERRED_FROM:
                chunk_run.outcome = outcome_of_store_error(chunk_run, error)
            most = RETRY_S * 2 ** (number - 1)
            await asyncio.sleep(rt.rng.uniform(most / 2, most))
    raise AssertionError


async def settle_once(
    chunk_run: ChunkRun,
    job: Job,
    rt: Runtime,
    settlements: Settlements,
    *,
    patient: bool,
) -> float | None:
    """Write what the calls have returned, then the outcome, each once.

    The settlement has the usage of all calls. A later claim would look up an effect
    without a recorded answer, and would count it again.
    """
    outcome = chunk_run.outcome
    await chunk_run.ledger.finish_rest(patient=patient)
    # A redrive reuses the paid calls of a failed chunk; a succeeded chunk needs no
    # journal.
    keep = not isinstance(outcome, Succeeded)
    await chunk_run.journal.close(keep=keep, patient=patient)
    await keep_calls(chunk_run, rt)
    if not await write(chunk_run, job, rt, settlements):
        await chunk_run.write_late()
        raise ClaimLostError
    now = asyncio.get_running_loop().time()
    emit_end(chunk_run, now - chunk_run.lease.acquired_at)
    match chunk_run.outcome:
        case Retry(delay=delay) | Deferred(delay=delay):
            return delay
        case Sleeping(until) | Batching(until):
            return max(until - rt.clock(), 0.0)
        case Asking(question):
            return max(moment(question.until) - rt.clock(), 0.0)
        case Mapped():
            return LOOK_S
        case Released() | Paused():
            return 0.0
        case _:
            return None


async def write(  # noqa: C901, PLR0911 -- one return for each outcome
    chunk_run: ChunkRun, job: Job, rt: Runtime, settlements: Settlements
) -> bool:
    """Settle the claim in one write; return whether the claim was still owned."""
    claim, usage = chunk_run.claim, chunk_run.claim.chunk.call_usage
    counts = chunk_run.ctx.caller.counts
    usage.merge(chunk_run.state.usage.whole)
    late = chunk_run.calls_after_cancel or 0
    calls = Calls(
        counts.made,
        late,
        counts.cached,
        chunk_run.ctx.caller.earlier.paid_again,
        chunk_run.ledger.in_doubt,
        usage,
        records_of(chunk_run),
        unstable_of(chunk_run),
    )
    match chunk_run.outcome:
        case Succeeded(value):
            return await succeed(chunk_run, value, job, rt, settlements, calls)
        case Retry() as retry:
            return await settlements.schedule_retry(claim, retry, calls=calls)
        case Deferred() as deferred:
            return await settlements.defer(claim, deferred, calls=calls)
        case Cancelled() as cancelled:
            at = None if cancelled.compensation is None else resume_at(chunk_run)
            return await settlements.cancel(claim, cancelled, resume_at=at, calls=calls)
        case DeadLettered() as dead:
            return await dead_letter(chunk_run, dead, job, rt, settlements, calls)
        case Released() as released:
            return await settlements.release(claim, released, calls=calls)
        case Paused() as paused:
            return await settlements.pause(claim, paused, calls=calls)
        case Sleeping() as sleeping:
            return await settlements.sleep(claim, sleeping, calls=calls)
        case Batching() as batching:
            return await ask_batches(chunk_run, batching, rt, settlements, calls)
        case Asking() as asking:
            return await settlements.ask(claim, asking, calls=calls)
        case Mapped() as mapped:
            waits = await settlements.map(claim, mapped, calls=calls)
            if waits is not None:
                return waits
            # The child has ended meanwhile: the stage runs again at once.
            at_once = Sleeping(rt.clock(), mapped.pivot_untried)
            chunk_run.outcome = at_once
            return await settlements.sleep(claim, at_once, calls=calls)


async def ask_batches(
    chunk_run: ChunkRun,
    batching: Batching,
    rt: Runtime,
    settlements: Settlements,
    calls: Calls,
) -> bool:
    """Write the requests of a chunk that waits for batches, first their objects."""
    claim, batched = chunk_run.claim, chunk_run.ctx.caller.batched
    ref = claim.ref
    for part, request in enumerate(batching.requests, 1):
        place = ref.tenant, ref.job, ref.chunk, claim.fence, part
        await rt.objects.put(keys.request_key(*place), request.content)
    if not await settlements.batch(claim, batching, calls=calls):
        return False
    if batched is not None:
        batched.note_settled()
    return True


async def keep_calls(chunk_run: ChunkRun, rt: Runtime) -> None:
    """Write the calls that are kept with their arguments; an outage keeps none.

    They are for people, so no chunk waits for them.
    """
    recorder, claim = chunk_run.ctx.caller.attempts.recorder, chunk_run.claim
    if not recorder.kept:
        return
    dead = isinstance(chunk_run.outcome, DeadLettered)
    if kept := recorder.kept_at_end(dead=dead):
        ref = claim.ref
        key = keys.kept_calls_key(ref.tenant, ref.job, ref.chunk, claim.fence)
        with suppress(StoreError):
            await rt.objects.put(key, pack_kept(kept), "application/gzip")


def records_of(chunk_run: ChunkRun) -> bytes | None:
    """Return the records of the chunk's calls that no page of the journal has."""
    waiting = chunk_run.ctx.caller.attempts.recorder.waiting
    if not waiting:
        return None
    return pack_for_row([*read_records(chunk_run.claim.chunk.item, ROW), *waiting])


def unstable_of(chunk_run: ChunkRun) -> dict[str, str] | None:
    """Return the call whose stored answers the claim did not find again."""
    found = chunk_run.ctx.caller.keys_watch.found
    if found is None:
        return None
    return asdict(found) | {"code_version": chunk_run.ledger.code_version}


async def succeed(
    chunk_run: ChunkRun,
    value: str,
    job: Job,
    rt: Runtime,
    settlements: Settlements,
    calls: Calls,
) -> bool:
    """Write a success with the last value and, for a join, the end of the job."""
    pipeline, checkpoints = chunk_run.pipeline, chunk_run.checkpoints
    last, claim = len(pipeline.stages) - 1, chunk_run.claim
    facts: dict[str, Any] = {}
    result = value
    if pipeline.result_index != last:
        facts["result_stage"] = name = pipeline.stages[pipeline.result_index].name
        result = checkpoints.completed[name]
        if pipeline.stages[last].name not in checkpoints.completed:
            facts["stages"] = await checkpoints.with_stage(last, value)
    facts["result_sha256"] = keys.sha256(result.encode())
    also = await job_end(chunk_run, job, rt, join_error="")
    if not fits_inline(claim.ref, result):
        also.append(await checkpoints.result_put(result))
    elif result != NULL:
        facts["value"] = result
    return await settlements.succeed(claim, result=facts, also=also, calls=calls)


async def dead_letter(
    chunk_run: ChunkRun,
    dead: DeadLettered,
    job: Job,
    rt: Runtime,
    settlements: Settlements,
    calls: Calls,
) -> bool:
    """Write a dead letter and, for a join, the end of the job."""
    letter = DeadLetters(rt.dead_letters, rt.settings, rt.clock).row(
        chunk_run.claim,
        dead,
        chunk_run.error_history,
        pipeline=chunk_run.pipeline.name,
        owner=chunk_run.pipeline.owner,
        runbook=chunk_run.pipeline.runbook,
        codes=chunk_run.pipeline.codes,
        compensated=chunk_run.checkpoints.compensated,
    )
    also = await job_end(chunk_run, job, rt, join_error=dead.failure.code)
    ladder = chunk_run.pipeline.ladder
    if job.has_ladder and ladder is not None:
        climb = Climb.start(ladder, rt.clock())
        letter |= climb.facts if climb is not None else {}
        also += start_writes(rt.table, letter)
    if job.tolerated_chunks and not chunk_run.claim.ref.is_join:
        # The cached job may belong to an earlier generation.
        claim = chunk_run.claim
        also.append(rt.transitions.counting_failure(claim.ref, claim.gen))
    return await settlements.dead_letter(
        chunk_run.claim,
        dead,
        letter,
        resume_at=resume_at(chunk_run),
        also=also,
        calls=calls,
    )


def resume_at(chunk_run: ChunkRun) -> str:
    """Return where a redrive resumes: the first incomplete or compensated stage."""
    names = [stage.name for stage in chunk_run.pipeline.stages]
    done = chunk_run.checkpoints.completed
    compensated = chunk_run.checkpoints.compensated
    return next((n for n in names if n in compensated or n not in done), names[-1])


async def job_end(
    chunk_run: ChunkRun, job: Job, rt: Runtime, *, join_error: str
) -> list[ItemWrite]:
    """Return the writes that end the job together with its join; empty for a chunk."""
    if not chunk_run.claim.ref.is_join:
        return []
    if job.gen != chunk_run.claim.gen:
        # The cached job belongs to an earlier generation.
        job = await rt.jobs.read(job.ref) or job
    # The join's snapshot is still valid: see `piecework.store.completion`.
    snapshot = chunk_run.snapshot or await take_snapshot(rt.table, job.ref, job.chunks)
    certificate = chunk_run.certificate = certify(job, snapshot, rt.clock(), join_error)
    had_doubt = job.effects_in_doubt > 0
    facts = await store_certificate(rt, certificate, had_doubt=had_doubt)
    facts |= unstable_facts(job, snapshot)
    return await rt.transitions.ending(job, certificate.status, facts)


# ── emit the event of a claim's end once it is written ────────────────────────


def emit_end(chunk_run: ChunkRun, seconds: float) -> None:
    """Emit the event of a claim's end, and `job.finished` for the join's claim."""
    counts, log = chunk_run.ctx.caller.counts, chunk_run.ctx.log
    facts: dict[str, Any] = {
        "chunk": chunk_run.claim.ref.chunk,
        "duration_ms": round(seconds * 1000),
        "calls": counts.made,
        "replayed": counts.replayed,
        "cached": counts.cached,
        "retried": counts.retried,
    }
    if isinstance(chunk_run.outcome, DeadLettered):
        code = chunk_run.outcome.failure.code
        own = own_meaning(code, chunk_run.pipeline.codes)
        facts |= {"cause": own.get("cause", ""), "recovery": own.get("recovery", "")}
    emit_outcome(chunk_run.outcome, chunk_run.claim.attempt, facts, log)
    in_doubt = chunk_run.ledger.in_doubt
    if in_doubt and not isinstance(chunk_run.outcome, GOES_ON):
        telemetry.emit(log, "chunk.effects_in_doubt", effects=in_doubt)
    compensated = chunk_run.checkpoints.compensated
    if compensated and not isinstance(chunk_run.outcome, GOES_ON):
        failed = [stage for stage, failure in compensated.items() if failure]
        stages = list(compensated)
        telemetry.emit(log, "chunk.compensated", stages=stages, failed=failed)
    if chunk_run.certificate is not None:
        emit_job_finished(chunk_run.certificate, log)


def emit_outcome(  # noqa: C901 -- one case for each outcome
    outcome: Outcome,
    attempts: int,
    facts: dict[str, Any],
    log: structlog.stdlib.BoundLogger,
) -> None:
    """Emit the event of an outcome; `facts` are the fields that all of them have."""
    match outcome:
        case Succeeded():
            telemetry.emit(log, "chunk.succeeded", **facts)
        case Retry(failure, delay):
            telemetry.emit(
                log,
                "chunk.retry_scheduled",
                error_code=failure.code,
                raised=failure.raised,
                traceback=failure.traceback,
                delay_s=round(delay, 3),
                **facts,
            )
        case Deferred(failure, delay, blocked_on):
            telemetry.emit(
                log,
                "chunk.deferred",
                error_code=failure.code,
                delay_s=round(delay, 3),
                blocked_on=blocked_on,
                **facts,
            )
        case Released():
            telemetry.emit(log, "chunk.released", **facts)
        case Paused():
            telemetry.emit(log, "chunk.paused", **facts)
        case Sleeping(until):
            telemetry.emit(log, "chunk.sleeping", until=iso(until), **facts)
        case Batching(until, requests):
            telemetry.emit(
                log,
                "chunk.batching",
                requests=sum(len(each.bodies) for each in requests),
                until=iso(until),
                **facts,
            )
        case Asking(question):
            facts = {**facts, "question": question.name, "until": question.until}
            telemetry.emit(log, "chunk.asking", **facts)
        case Mapped(child):
            telemetry.emit(log, "chunk.mapping", child=child.job, **facts)
        case Cancelled():
            telemetry.emit(log, "chunk.cancelled", **facts)
        case DeadLettered(failure, compensation):
            telemetry.emit(
                log,
                "chunk.dead_lettered",
                error_code=failure.code,
                raised=failure.raised,
                stage=failure.stage,
                attempts=attempts,
                compensation=compensation.value,
                envelope=failure.model_dump(mode="json", exclude_defaults=True),
                **facts,
            )


def emit_job_finished(
    certificate: Certificate, log: structlog.stdlib.BoundLogger
) -> None:
    """Emit the status and the outcome counts of a finished job."""
    telemetry.emit(
        log,
        "job.finished",
        status=certificate.status.value,
        chunks=certificate.chunks,
        outcomes=certificate.outcomes,
    )
