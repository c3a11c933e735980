"""Reopen dead chunks after their cause was fixed, as an act on the job's record.

A redrive is a retry of the chunks that the dead letters name. It does not use the
messages of the dead-letter queue. Provider keys are fresh, so that a provider does not
repeat its stored failure. The effect ledger is asked first, so that no effect happens
twice.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from piecework.aws.payloads import MOST_BYTES, PayloadRef
from piecework.domain import keys
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.job import Job
from piecework.domain.payload import keep_payload
from piecework.domain.payload import read_payload as read_model
from piecework.domain.refs import JobRef
from piecework.domain.round_trip import NotKeptError
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.domain.strict_json import Bounds, read_json
from piecework.errors import PieceworkError, UsageError
from piecework.errors.location import raised_text
from piecework.explain.situation import IN_DOUBT
from piecework.jobs.order import chunks_behind, start_next
from piecework.pipelines import Pipeline
from piecework.runtime import Runtime
from piecework.store.checkpoints import read_effects, read_work
from piecework.store.compensations import FailedCompensation
from piecework.store.completion import read_chunk
from piecework.store.dead_letters import OPEN, Closing
from piecework.store.order import allows_next, skipping
from piecework.store.reopen import Patched
from piecework_orchestrator.dead_letters.letters import read_payload
from piecework_orchestrator.dead_letters.merge_patch import (
    apply_patch,
    is_same_json,
    make_patch,
)
from piecework_orchestrator.operate.retry import (
    INCOMPLETE,
    ReopenRequest,
    RetryRequest,
    reopen,
    require_reopenable,
)
from piecework_orchestrator.operate.run_again import (
    RunAgain,
    require_stage,
    restart_of,
)
from piecework_orchestrator.operate.unknown_fields import (
    unknown_fields,
    unread_fields,
    unstored,
)
from piecework_orchestrator.reading.job_documents import dead_letters_of

# ── discard dead letters ──────────────────────────────────────────────────────


async def discard(
    rt: Runtime, ref: JobRef, letters: Sequence[DeadLetterRow], closing: Closing
) -> int:
    """Discard dead letters of a job; return how many of them were still open.

    They no longer count as open, and neither a redrive nor a retry reopens their
    chunks. The status of the job stays as it is. A chunk with an order key is skipped.
    If the job has not ended, the next chunk of its key goes on.
    """
    store, count = dead_letters_of(rt), 0
    try:
        for letter in letters:
            skip = (
                [skipping(rt.table, letter.ref, letter.gen, rt.clock())]
                if letter.order_key
                else []
            )
            count += await store.discard(letter, closing, skip)
            chunk = await read_chunk(rt.table, letter.ref) if skip else None
            if chunk is not None and allows_next(chunk):
                await start_next(rt, chunk, await rt.jobs.queue_of(ref))
    finally:  # what was discarded before an error of the store, too
        event = {"actor": closing.actor, "reason": closing.reason, "letters": count}
        await rt.jobs.record(ref, "discarded", event)
    return count


# ── give a dead chunk a new payload ───────────────────────────────────────────
#
# A stored payload is never changed in place. The manifest keeps what was submitted; the
# dead letter keeps the place of the old payload, and the patch.

#: Characters of a patch that a dead letter keeps; of a longer patch it keeps the hash.
PATCH_LIMIT = 4_096


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of payloads.

    Attributes:
        value: A merge patch, or a whole new payload.
        whole: Whether the value is a whole payload.
        pipeline: The pipeline whose payload type a new payload must fit; None: any
            JSON object is accepted.
    """

    value: dict[str, Any]
    whole: bool = False
    pipeline: Pipeline | None = None

    def apply(self, old: Any) -> Any:
        """Return the new payload.

        `old`: the stored payload; None: it cannot be read.

        Raises:
            UsageError: `redrive.payload.invalid`, naming the fields;
                `redrive.field.unknown`.
        """
        found = self.value if self.whole else apply_patch(old, self.value)
        # A patch may remove what is not there: it is sent to many payloads.
        given = self.value if self.whole else apply_patch({}, self.value)
        unknown = {} if old is None else dict(unstored(given, old))
        if self.pipeline is None:
            if unknown:
                why = "the stored payload has no such field"
                raise unknown_fields("payload", why, unknown)
            return found
        model = self.pipeline.payload
        try:
            valid = read_model(model, json.dumps(found))
            # As a submit writes it: by alias, and without computed fields.
            text, _ = keep_payload(model, valid)
        except NotKeptError as error:
            message = f"A worker would read another payload than the new one: {error}."
            raise invalid_payload(message) from error
        except ValidationError as error:
            fields = {".".join(map(str, e["loc"])) or "payload" for e in error.errors()}
            message = (
                f"The new payload does not fit {model.__name__}: {sorted(fields)}."
            )
            raise invalid_payload(message) from error
        except PieceworkError:
            raise
        except Exception as error:  # a validator may raise anything
            message = f"{model.__name__} {raised_text(error)} on the new payload."
            raise invalid_payload(message) from error
        # A field that only the stored payload has is of an older version of the model.
        vanishing = {
            path: near
            for path, near in unread_fields(given, valid)
            if old is None or path in unknown
        }
        if vanishing:
            why = f"neither the stored payload nor {model.__name__} has such a field"
            raise unknown_fields("payload", why, vanishing)
        return json.loads(text)


@dataclass(frozen=True, slots=True)
class EditedPayload:
    """A new payload as it will be stored, and its reference for chunk and letter."""

    content: bytes
    pack: str
    patched: Patched


async def edit_payload(
    rt: Runtime, letter: DeadLetterRow, edit: Edit
) -> EditedPayload | None:
    """Return the new payload for a dead letter; None: the edit changes nothing.

    Raises:
        UsageError: `redrive.payload.invalid`, `redrive.field.unknown`,
            `redrive.effect.unresolved`.
        PieceworkError: The payload to patch cannot be read.
    """
    if not letter.payload:
        message = f"Chunk {letter.chunk} of {letter.job.job} has no payload."
        raise invalid_payload(message)
    if edit.pipeline and edit.pipeline.name != letter.pipeline:
        message = (
            f"Chunk {letter.chunk} of {letter.job.job} belongs to pipeline "
            f"{letter.pipeline}, not {edit.pipeline.name}."
        )
        raise invalid_payload(message)
    old = await payload_of(rt, letter, required=not edit.whole)
    if not (edit.whole or isinstance(old, dict)):
        raise no_object_to_patch(letter, old)
    new = edit.apply(old)
    if is_same_json(new, old):
        return None
    await require_resolved(rt, letter)
    try:
        content = json.dumps(new, ensure_ascii=False).encode()
        read_json(content, Bounds(MOST_BYTES), finite=False)  # as the worker will
    except ValueError as error:
        message = f"The new payload cannot be written as JSON: {error}."
        raise invalid_payload(message) from error
    sha256 = keys.sha256(content)
    pack = sha256[:32]
    place = PayloadRef(pack, 0, len(content))
    patch = patch_text(edit.value if not edit.whole else make_patch(old, new))
    return EditedPayload(content, pack, Patched(str(place), sha256, patch))


async def require_resolved(rt: Runtime, letter: DeadLetterRow) -> None:
    """Refuse another payload while an effect of the chunk is in doubt.

    A call with other arguments is another call, so the effect could happen twice.

    Raises:
        UsageError: `redrive.effect.unresolved`.
    """
    for row in await read_effects(rt.table, letter.ref):
        if row.state in IN_DOUBT:
            message = (
                f"An effect of stage {row.stage!r} of chunk {letter.ref} is in doubt: "
                "with another payload its call would be made, too."
            )
            step = f"`piecework effects list {letter.job.job}` lists what to resolve."
            raise UsageError(message, code="redrive.effect.unresolved", next_step=step)


async def payload_of(rt: Runtime, letter: DeadLetterRow, *, required: bool) -> Any:
    """Return the payload that a chunk died with.

    If it is not required, return None where it cannot be read.
    """
    try:
        return await read_payload(rt, letter.ref, letter.payload, letter.payload_sha256)
    except (PieceworkError, ValueError):
        if required:
            raise
        return None


def patch_text(patch: Any) -> str:
    """Return which fields a patch changes; its values are only in the new payload."""
    text = ", ".join(sorted(patch)) if isinstance(patch, dict) else "the payload"
    return text if len(text) <= PATCH_LIMIT else f"{len(patch)} fields"


async def store_payload(
    rt: Runtime, letter: DeadLetterRow, edited: EditedPayload
) -> Patched:
    """Store a new payload. Its name is its hash, so storing twice changes nothing."""
    key = keys.pack_key(letter.ref.tenant, letter.ref.job, edited.pack)
    await rt.objects.put(key, edited.content, "application/jsonl")
    return edited.patched


def invalid_payload(message: str) -> UsageError:
    """Return the error that refuses a new payload."""
    return UsageError(message, code="redrive.payload.invalid")


def no_object_to_patch(letter: DeadLetterRow, old: Any) -> UsageError:
    """Return the error of a patch for a payload without fields.

    A merge patch (RFC 7396) would replace it whole, and its row would be lost.
    """
    job, chunk = letter.job.job, letter.chunk
    kind = {str: "a text", list: "a list", bool: "a boolean", type(None): "null"}
    message = (
        f"The payload of chunk {chunk} of {job} is {kind.get(type(old), 'a number')}, "
        "not a JSON object: a patch of fields would replace it whole."
    )
    step = f"`piecework dlq redrive --job {job} --chunk {chunk} --edit FILE`"
    return UsageError(
        message,
        code="redrive.payload.invalid",
        next_step=f"Write the whole row as a JSON object into a file, then {step}.",
    )


#: The code of a redrive whose dead letters others have closed meanwhile.
NOTHING_LEFT = "redrive.selection.empty"


def describe_skipped(ref: JobRef, error: PieceworkError) -> str:
    """Return the remark on a job that cannot be redriven beside the others."""
    how = "reopened in part" if error.code == INCOMPLETE else "skipped"
    return f"job {ref.job} is {how}: {error.code}: {error.message}"


@dataclass(frozen=True, slots=True)
class RedriveRequest:
    """A redrive of dead letters of one job, as the operator requested it.

    Attributes:
        rate: Chunks dispatched a second; None: all at once.
        edit: The change of their payloads; None: the payloads stay.
        again: The completed stage from which they run again; None: they keep all.
        compensates: The chunks run their failed compensation again, and nothing else.
    """

    ref: JobRef
    letters: Sequence[DeadLetterRow]
    actor: str
    reason: str
    rate: float | None = None
    edit: Edit | None = None
    compensates: bool = False
    again: RunAgain | None = None


async def redrive(rt: Runtime, request: RedriveRequest) -> tuple[int, int]:
    """Redrive dead letters of a job; return how many, and the new generation.

    A dead letter is left out if its chunk is not dead any more, or if the letter is
    closed. The chunks behind it in its order key that ended with it are reopened, too.
    If all are left out, no generation is started: its join would cost money and
    change nothing. The dead letter of a join is redriven by finishing the job again.

    Raises:
        NotFoundError: `job.record.not_found`.
        UsageError: `job.state.not_finished`; `redrive.payload.invalid`,
            `redrive.field.unknown`;
            `redrive.effect.unresolved`: another payload, and an effect in doubt; what
            `restart_of` raises;
            `redrive.compensation.unknown`; `redrive.selection.empty`: all of them are
            closed; `job.retry.in_progress`, `job.retry.incomplete`.
    """
    retrying = RetryRequest(
        request.ref,
        request.actor,
        request.reason,
        rate=request.rate,
        again=request.again,
    )
    job = await require_reopenable(rt, retrying)
    if request.again is not None:
        request.again.check()
        require_stage(job, request.again.stage)
    found = [
        await to_reopen_request(rt, job, request, letter) for letter in request.letters
    ]
    chunks = [one for one in found if one is not None]
    if job.is_ordered and chunks and not request.compensates:
        dead = {
            one.letter.order_key: one.chunk.ref.chunk for one in chunks if one.letter
        }
        behind = await chunks_behind(rt, job, dead)
        chunks += [ReopenRequest(chunk) for chunk in behind]
    if not chunks and not await may_reopen_without_chunks(rt, request, job):
        message = f"The dead letters of job {request.ref.job} are closed already."
        step = f"`piecework dlq list --job {request.ref.job}`"
        raise UsageError(message, code=NOTHING_LEFT, next_step=step)
    event = "compensation repeated" if request.compensates else "redriven"
    reopened, gen = await reopen(rt, job, chunks, retrying, event)
    named = {letter.chunk for letter in request.letters}
    redriven = sum(chunk.ref.chunk in named for chunk in reopened)
    return redriven + await count_redriven_joins(rt, request, gen), gen


async def to_reopen_request(
    rt: Runtime, job: Job, request: RedriveRequest, letter: DeadLetterRow
) -> ReopenRequest | None:
    """Return the chunk of a dead letter with its new payload; None: it is left out."""
    ref = request.ref.chunk(letter.chunk)
    if ref.is_join:
        return None
    chunk, still_open = await asyncio.gather(
        read_chunk(rt.table, ref), is_open(rt, request.ref, letter)
    )
    if chunk is None or not still_open:
        return None
    if (chunk.status, chunk.gen) != (ChunkStatus.DEAD, letter.gen):
        return None
    if request.compensates:
        again = await require_compensation(rt, letter)
        return ReopenRequest(chunk, letter, compensation=again)
    start, actor = request.again, request.actor
    restart = await restart_of(rt, job, chunk, start, actor) if start else None
    edited = await edit_payload(rt, letter, request.edit) if request.edit else None
    patched = await store_payload(rt, letter, edited) if edited else None
    return ReopenRequest(chunk, letter, patched, restart=restart)


async def require_compensation(
    rt: Runtime, letter: DeadLetterRow
) -> FailedCompensation:
    """Return the failed compensation of a dead letter.

    Raises:
        UsageError: `redrive.compensation.unknown`: the chunk died before it began.
    """
    work = await read_work(rt.table, letter.ref)
    found = FailedCompensation.read(work, letter.gen)
    if found is None:
        raise never_began(letter)
    return found


def never_began(letter: DeadLetterRow) -> UsageError:
    """Return the error of a compensation that cannot run again."""
    message = f"The compensation of chunk {letter.ref} has not begun."
    command = f"piecework dlq compensate --job {letter.ref.job} --chunk {letter.chunk}"
    step = f"Undo its effects by hand, then `{command} --outcome compensated`."
    return UsageError(message, code="redrive.compensation.unknown", next_step=step)


async def is_open(rt: Runtime, ref: JobRef, letter: DeadLetterRow) -> bool:
    """Return whether a dead letter is still open; it was listed some time ago."""
    now = await dead_letters_of(rt).read(ref.chunk(letter.chunk), letter.gen)
    return now is not None and now.state == OPEN


async def may_reopen_without_chunks(
    rt: Runtime, request: RedriveRequest, job: Job
) -> bool:
    """Return whether to reopen a job though no chunk is left.

    That is so for the dead letter of a join, and for a reopening that was interrupted.
    """
    joins = [letter for letter in request.letters if letter.ref.is_join]
    interrupted = job.status is JobStatus.REOPENING
    return interrupted or any(
        [await is_open(rt, request.ref, letter) for letter in joins]
    )


async def count_redriven_joins(rt: Runtime, request: RedriveRequest, gen: int) -> int:
    """Count the dead letters of the join that this generation has closed."""
    joins = [letter for letter in request.letters if letter.ref.is_join]
    now = [await dead_letters_of(rt).read(letter.ref, letter.gen) for letter in joins]
    return sum(letter is not None and letter.redriven_gen == gen for letter in now)
