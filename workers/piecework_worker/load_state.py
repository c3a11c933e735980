"""Load what a claimed chunk needs: its payload, and the records of earlier claims."""

from __future__ import annotations

import json
from dataclasses import replace

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from piecework.aws.payloads import MOST_BYTES, PayloadRef, Payloads
from piecework.calls.earlier import EarlierCall, call_at
from piecework.calls.unstable import Site
from piecework.context import Results
from piecework.domain import keys
from piecework.domain.argument_digests import KEY_LENGTH
from piecework.domain.identity import function_words
from piecework.domain.job import Job
from piecework.domain.moments import moment
from piecework.domain.outcome import CHANGED_CODE
from piecework.domain.payload import read_payload, refusal_of
from piecework.domain.rows import CallsRow, EffectRow, StageRow
from piecework.domain.shape import (
    ChunkRows,
    Compatible,
    Shape,
    Unsafe,
    compare,
    compare_join,
)
from piecework.domain.strict_json import Bounds, JsonRefusedError, read_json
from piecework.errors import PermanentError
from piecework.jobs.fan_in import StoredJobResults
from piecework.resilience.batching import Answer
from piecework.resilience.breaker import OPEN_CODE
from piecework.runtime import Runtime
from piecework.store.checkpoints import Work, read_work
from piecework.store.completion import take_snapshot
from piecework.store.effects import MAY_HAVE_HAPPENED
from piecework.store.table import Table
from piecework.telemetry.traces import note_payload
from piecework_worker.assembly import ChunkRun

#: The bounds of one chunk's payload: plain JSON data, whatever its source.
BOUNDS = Bounds(MOST_BYTES)
#: Field paths that an error message names at most.
SHOWN = 5


async def load_state(
    chunk_run: ChunkRun, job: Job, rt: Runtime, payloads: Payloads
) -> None:
    """Load the state of a chunk run; the first claim of a chunk only reads its payload.

    A join reads the snapshot of its job, unless this process has it.

    Raises:
        PieceworkError: The payload or a checkpoint does not match its record.
    """
    if not chunk_run.claim.is_first:
        await load_progress(chunk_run, job, rt.table)
    require_safe_code(chunk_run, job)
    if isinstance(chunk_run.ctx, Results):
        # This process has the snapshot if it started the join.
        snapshot = rt.snapshots.take(job.ref, chunk_run.claim.gen)
        if snapshot is None:
            snapshot = await take_snapshot(rt.table, job.ref, job.chunks)
        chunk_run.snapshot = snapshot
        chunk_run.ctx.job_results = StoredJobResults(
            rt.table, rt.objects, job.ref, snapshot
        )
    else:
        await load_payload(chunk_run, payloads)


async def load_progress(chunk_run: ChunkRun, job: Job, table: Table) -> None:
    """Load the checkpoints, calls, effects and errors of earlier claims."""
    chunk = chunk_run.claim.chunk
    work = await read_work(table, chunk.ref, chunk)
    counts = chunk_run.ctx.caller.counts
    counts.deferrals, counts.failed_probes = chunk.deferrals, chunk.failed_probes
    counts.breaker_deferrals = chunk.breaker_deferrals
    counts.budget_deferrals = chunk.budget_deferrals
    counts.early_deferrals = chunk.early_deferrals
    if chunk.breaker_since:
        counts.breaker_since = moment(chunk.breaker_since)
        waits = [e for e in chunk.history if e.get("code") == OPEN_CODE]
        if waits and (name := waits[-1].get("blocked_on")):
            counts.failed_before = {name: counts.breaker_since}
    if chunk.pivot_untried_fence == chunk_run.claim.fence - 1:
        counts.untried = chunk.stage
    chunk_run.error_history = work.errors
    chunk_run.ledger.load(work.effects)
    chunk_run.ctx.caller.in_flight.note_earlier_claim(chunk_run.ledger.in_flight_s)
    await chunk_run.journal.load(work.calls)
    chunk_run.questions.load(work.questions)
    await chunk_run.checkpoints.load(work)
    await load_batches(chunk_run, work)
    note_earlier_calls(chunk_run, job, work)
    require_ended_compensations(chunk_run, job, work)


async def load_batches(chunk_run: ChunkRun, work: Work) -> None:
    """Load what batches have answered, and what earlier claims have asked them."""
    batched, requests = chunk_run.ctx.caller.batched, work.requests
    if batched is None or not requests:
        return
    journal, answers = chunk_run.journal, dict[str, Answer]()
    for row in sorted(work.answers, key=lambda row: row.fence):
        text = await journal.objects.get_value(row, journal.prefix)
        answers[row.custom_id] = Answer(text, row.fence)
    batched.load(answers, requests)


def note_earlier_calls(chunk_run: ChunkRun, job: Job, work: Work) -> None:
    """Note what earlier claims did in stages that have not completed.

    Of a stage that has, note the effects of another version, unless this one has
    completed the stage: then it has asked for them there.

    Calls of the same version of the code are left out: what it asks for does not depend
    on a change. So are those before an operator gave the chunk another payload, because
    this asks for other calls. So are those before an operator accepted the change, or
    let the acts of stages that run again happen twice.
    """
    accepted_at = accepted_until(job, chunk_run)
    completed, chunk = chunk_run.checkpoints.completed, chunk_run.claim.chunk
    patched_in = max(chunk.patched_in_gen or 0, chunk.repeats_in_gen or 0)
    undone = last_compensated(work)
    known, unasked = set[str](), dict[str, EarlierCall]()
    refused, over = dict[str, EarlierCall](), list[EarlierCall]()
    for row in work.effects:
        made_by = row.code_version or f"claim {row.fence}"
        made = row.state, made_by, row.started_at
        is_over = row.stage in completed
        call = EarlierCall(
            row.stage, row.called, row.dependency, *made, row.arguments, is_over
        )
        if row.state not in MAY_HAVE_HAPPENED:
            refused[row.key] = call
            continue
        known.add(row.key)
        gen, undoes = row.gen or 1, keys.compensated_stage(row.stage)
        is_meant = row.started_at <= accepted_at or gen < patched_in
        if is_meant or undone.get(undoes, 0) >= gen or is_own(row, chunk_run):
            continue
        if not is_over:
            unasked[row.key] = call
        elif row.code_version != chunk_run.ledger.code_version:
            over.append(call)
    watch_keys(chunk_run, work, patched_in)
    for page in work.calls:
        for key, site in page.read_sites().items():
            known.add(key)
            call = replace(call_at(site), made_by=page.code_version)
            is_over = call.stage in completed or page.gen < patched_in
            if not is_over and not accepted_at and not is_own(page, chunk_run):
                unasked.setdefault(key, call)
    chunk_run.ledger.by_others = frozenset(
        row.key
        for row in work.effects
        if row.started_at > accepted_at and not is_own(row, chunk_run)
    )
    earlier = chunk_run.ctx.caller.earlier
    earlier.load(frozenset(known), refused, unasked)
    if over:
        gen = chunk_run.checkpoints.compensation_gen
        stages = work.complete_stages(gen).values()
        own = {stage.stage for stage in stages if is_own(stage, chunk_run)}
        left = (call for call in over if call.stage not in own)
        earlier.load_over(left, named_in_all(chunk_run, job))


def watch_keys(chunk_run: ChunkRun, work: Work, patched_in: int) -> None:
    """Note what earlier claims of the same code did in stages that are not over.

    Another version may mean other calls; so may a payload that an operator has edited.
    """
    completed, version = chunk_run.checkpoints.completed, chunk_run.ledger.code_version
    watch = chunk_run.ctx.caller.keys_watch
    for row in work.effects:
        site = Site(row.stage, row.dependency, row.called)
        happened = row.state in MAY_HAVE_HAPPENED and (row.gen or 1) >= patched_in
        if happened and row.stage not in completed and row.code_version == version:
            watch.load(row.key, site, {})
    for page in work.calls:
        if page.gen < patched_in or page.code_version != version:
            continue
        digests = page.read_digests()
        for key, text in page.read_sites().items():
            site = Site(*json.loads(text))
            if site.stage not in completed:
                watch.load(key, site, digests.get(key[:KEY_LENGTH], {}))


def named_in_all(chunk_run: ChunkRun, job: Job) -> frozenset[tuple[str, str]]:
    """Return the stages and the functions that they name in each known version."""
    if not job.shape:
        return frozenset()
    shapes = [Shape.read(each) for each in (job.shape, *chunk_run.checkpoints.shapes)]
    pairs = [
        {(stage.name, call) for stage in shape.stages for call in stage.calls}
        for shape in (*shapes, chunk_run.shape)
    ]
    return frozenset(set.intersection(*pairs))


def accepted_until(job: Job, chunk_run: ChunkRun) -> str:
    """Return until when an operator lets this code go on; empty: none did."""
    version = job.changes_accepted_for
    is_meant = version in {"", chunk_run.ledger.code_version}
    return job.changes_accepted_at if is_meant else ""


def is_own(row: EffectRow | CallsRow | StageRow, chunk_run: ChunkRun) -> bool:
    """Return whether this version of the code has written a row."""
    version = chunk_run.ledger.code_version
    return bool(version) and row.code_version == version


def last_compensated(work: Work) -> dict[str, int]:
    """Return the last generation in which each stage's compensation has ended."""
    undone = dict[str, int]()
    for row in work.compensated:
        undone[row.stage] = max(row.gen, undone.get(row.stage, 0))
    return undone


def require_ended_compensations(chunk_run: ChunkRun, job: Job, work: Work) -> None:
    """Require that no compensation of an earlier generation has only begun to act.

    What its stage did stands in the record, and may be undone. A version without the
    compensation, say, has ended the generation before the compensation had ended.

    Raises:
        PermanentError: `runtime.code.changed`.
    """
    checkpoints = chunk_run.checkpoints
    if checkpoints.failure is not None or accepted_until(job, chunk_run):
        return
    effects = [row for row in work.effects if row.state in MAY_HAVE_HAPPENED]
    stages = work.complete_stages(checkpoints.compensation_gen).values()
    # The first generation of what stands of each stage.
    stands, undone = dict[str, int](), last_compensated(work)
    for name, gen in (
        *((row.stage, row.gen or 1) for row in effects),
        *((row.stage, row.claim[0]) for row in stages),
    ):
        stands[name] = min(gen, stands.get(name, gen))
    for effect in effects:
        name, gen = keys.compensated_stage(effect.stage), effect.gen or 1
        if stands.get(name, gen + 1) <= gen and undone.get(name, 0) < gen:
            message = (
                f"The compensation of stage {name!r} has begun to act in generation "
                f"{gen}, and has not ended: {function_words(effect.called)} "
                f"({effect.state}). What the stage did may be undone, so the chunk "
                "must not go on after it."
            )
            raise PermanentError(message, code=CHANGED_CODE)


def require_safe_code(chunk_run: ChunkRun, job: Job) -> None:
    """Require that the chunk may go on with this worker's version of its pipeline.

    It is compared with the version of the submit, and with each version of which a
    worker has completed a stage: a deployment may have been rolled back. Keep on the
    run what differs from the submit.

    A chunk that compensates goes on: what nothing can compensate any more is named.

    Raises:
        PermanentError: `runtime.code.changed`.
    """
    checkpoints, now = chunk_run.checkpoints, chunk_run.shape
    if not job.shape or checkpoints.failure is not None:
        return
    if accepted_until(job, chunk_run):
        return
    for known in (job.shape, *sorted(checkpoints.shapes)):
        before = Shape.read(known)
        if chunk_run.claim.ref.is_join:
            found = compare_join(before, now)
        else:
            found = compare(
                before,
                now,
                ChunkRows(
                    checkpoints.completed,
                    checkpoints.reached_stage,
                    {
                        name
                        for name in chunk_run.ledger.stages_with_effects()
                        if not keys.is_compensation_stage(name)
                    },
                ),
            )
        if isinstance(found, Unsafe):
            message = f"The code of the chunk has changed: {found.reason}."
            raise PermanentError(message, code=CHANGED_CODE)
        if isinstance(found, Compatible) and known == job.shape:
            chunk_run.difference = found.difference


async def load_payload(chunk_run: ChunkRun, payloads: Payloads) -> None:
    """Read, check and validate the payload.

    Raises:
        PermanentError: `runtime.payload.invalid`: the payload does not fit the
            pipeline's model, which must have changed since the submit. The message
            names the fields but never contains their values.
    """
    chunk, model = chunk_run.claim.chunk, chunk_run.pipeline.payload
    content = await payloads.read(
        chunk.ref.tenant,
        chunk.ref.job,
        PayloadRef.parse(chunk.payload),
        chunk.payload_sha256,
    )
    try:
        refusal = refusal_of(read_json(content, BOUNDS, finite=False))
        if refusal is not None:
            message = f"The submit refused the row: {refusal}"
            raise PermanentError(message, code="runtime.payload.invalid")
        chunk_run.ctx.payload = read_payload(model, content)
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
