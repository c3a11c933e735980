"""List the effects in doubt, and store an operator's resolution of one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.refs import ChunkRef
from piecework.domain.rows import EffectRow
from piecework.domain.states import ChunkStatus
from piecework.errors import NotFoundError, UsageError
from piecework.explain.in_flight import InFlight, may_wait, read_in_flight
from piecework.explain.situation import EFFECT_IN_DOUBT, IN_DOUBT
from piecework.runtime import Runtime
from piecework.store.checkpoints import read_effects, read_work
from piecework.store.completion import all_chunks, read_chunk
from piecework.store.effect_resolutions import (
    Resolution,
    correct_effect,
    resolve_effect,
)
from piecework.store.effects import DONE, REFUSED
from piecework_orchestrator.reading.chunk_documents import (
    effect_document,
    require_chunk,
)

#: Statuses of chunks that ended without a result: no worker will resolve their effects.
ENDED_WITHOUT_RESULT = frozenset({ChunkStatus.DEAD, ChunkStatus.CANCELLED})

#: The dead letters whose effects are read before a redrive: one request each.
MOST_LETTERS = 50


@dataclass(frozen=True, slots=True)
class ResolutionRequest:
    """An operator's statement about an effect in doubt.

    Attributes:
        key: The effect's key, or the beginning of the key.
        answer: The value that the call returned, as JSON; None: it did not happen.
        correct: Replace an earlier resolution while the chunk is at its stage.
    """

    key: str
    answer: str | None
    actor: str
    reason: str
    correct: bool = False


def require_reason(reason: str) -> None:
    """Refuse to resolve an effect without a reason, which the record keeps.

    Raises:
        UsageError: `cli.reason.missing`.
    """
    if not reason.strip():
        message = "`effects resolve` requires --reason, which is kept in the record."
        step = "Add --reason 'where the outcome was checked'."
        raise UsageError(message, code="cli.reason.missing", next_step=step)


async def effects_in_doubt(
    rt: Runtime, job: Job, only: int | None = None
) -> AsyncIterator[dict[str, Any]]:
    """Yield the effects in doubt of chunks and join that have ended.

    A chunk with a result counts those that it has left. With `only`, yield those of
    this chunk, whatever its status.
    """
    if only is not None:
        named = await require_chunk(rt, job.ref.chunk(only))
        for row in await read_in_doubt(rt, named):
            yield row
        return
    async for chunk in all_chunks(rt.table, job.ref, job.chunks):
        if may_have_left(chunk):
            for row in await read_in_doubt(rt, chunk):
                yield row
    join = await read_chunk(rt.table, job.ref.chunk(keys.JOIN_CHUNK))
    if join is not None and may_have_left(join):
        for row in await read_in_doubt(rt, join):
            yield row


async def effects_in_flight(rt: Runtime, job: Job) -> list[InFlight]:
    """Return the effects that open chunks wait for: each may still be executed.

    They are not in doubt yet: the worker of the chunk may learn what happened.
    """
    chunks = [each async for each in all_chunks(rt.table, job.ref, job.chunks)]
    return await read_in_flight(rt, list(filter(may_wait, chunks)))


def may_have_left(chunk: Chunk) -> bool:
    """Return whether no worker will resolve the effects in doubt of a chunk, if any."""
    left = chunk.status is ChunkStatus.SUCCEEDED and chunk.effects_in_doubt > 0
    return chunk.status in ENDED_WITHOUT_RESULT or left


async def read_in_doubt(rt: Runtime, chunk: Chunk) -> list[dict[str, Any]]:
    """Return the effects in doubt of a chunk, the oldest first."""
    work = await read_work(rt.table, chunk.ref, chunk)
    found = [
        {
            "chunk": chunk.ref.chunk,
            "status": str(chunk.status),
            **effect_document(row),
        }
        for row in work.effects
        if row.state in IN_DOUBT
    ]
    return sorted(found, key=lambda row: str(row["started_at"]))


async def effects_of_letters(
    rt: Runtime, letters: Sequence[DeadLetterRow]
) -> list[dict[str, Any]]:
    """Return the effects in doubt of the first dead letters that died of one."""
    died = [each for each in letters if each.error_code == EFFECT_IN_DOUBT]
    found = []
    for letter in died[:MOST_LETTERS]:
        facts = {"job": letter.ref.job, "chunk": letter.chunk}
        rows = await read_effects(rt.table, letter.ref)
        doubtful = [row for row in rows if row.state in IN_DOUBT]
        found += [{**facts, "effect_key": row.key} for row in doubtful]
    return found


async def resolve(
    rt: Runtime, ref: ChunkRef, request: ResolutionRequest
) -> dict[str, Any]:
    """Record the outcome of an effect in doubt; return the effect as it is now.

    Raises:
        NotFoundError: `job.chunk.not_found`, `job.effect.not_found`.
        UsageError: `job.effect.not_resolved`: a worker holds the chunk, or the effect
            is not in doubt any more; `job.effect.answer_invalid`; `cli.reason.missing`.
    """
    require_reason(request.reason)
    chunk = await require_chunk(rt, ref)
    row = await find_effect(rt, chunk, request)
    answer = None
    if request.answer is not None:
        require_fitting(row, request.answer)
        at = keys.effect_value_key(ref.tenant, ref.job, row.key)
        answer = await rt.objects.put_value(request.answer, at)
    resolution = Resolution(request.actor, request.reason, iso(rt.clock()), answer)
    if row.state in IN_DOUBT:
        job = await rt.jobs.read(ref.of)
        stored = await resolve_effect(rt.table, chunk, row, resolution, job)
    else:
        stored = await correct_effect(rt.table, chunk, row, resolution)
    if not stored:
        raise not_resolved(chunk, row)
    state = REFUSED if answer is None else DONE
    facts = {"chunk": ref.chunk, "effect_key": row.key, "state": state}
    author = {"actor": request.actor, "reason": request.reason}
    await rt.jobs.record(ref.of, "effect resolved", facts | author)
    return {
        "job": ref.job,
        "status": str(chunk.status),
        "stage": row.stage,
        **facts,
    }


def not_resolved(chunk: Chunk, row: EffectRow) -> UsageError:
    """Return the error of a resolution that was not stored."""
    step = f"`piecework chunks show {chunk.ref.job} {chunk.ref.name}` shows both."
    if row.state in IN_DOUBT:
        must = "The effect can be resolved once the chunk has ended"
    elif keys.is_compensation_stage(row.stage):
        must = "The resolution of an effect of a compensation is final"
    else:
        must = (
            "A resolution can be corrected while the chunk is DEAD or CANCELLED at "
            f"stage {row.stage!r}"
        )
    now = f"{chunk.ref} is {chunk.status} at stage {chunk.stage!r}"
    message = f"{must}; {now}, or the effect changed meanwhile."
    return UsageError(message, code="job.effect.not_resolved", next_step=step)


async def find_effect(
    rt: Runtime, chunk: Chunk, request: ResolutionRequest
) -> EffectRow:
    """Return the only effect that may be resolved, and whose key begins so.

    Raises:
        NotFoundError: `job.effect.not_found`: no key begins so, or several do.
        UsageError: `job.effect.not_resolved`: an operator has resolved it before.
    """
    rows = await read_effects(rt.table, chunk.ref) if request.key else []
    named = [row for row in rows if row.key.startswith(request.key)]
    resolved = [r for r in named if r.resolved_at and r.state in {DONE, REFUSED}]
    found = [row for row in named if row.state in IN_DOUBT]
    found += resolved if request.correct else []
    if resolved and not found:
        facts = resolved[0].item
        message = (
            f"{facts['resolved_by']} resolved the effect at {facts['resolved_at']}: it "
            f"{'happened' if facts['state'] == DONE else 'did not happen'}; "
            f"{facts['resolve_reason']}."
        )
        step = "Add --correct (`correct=True`) if that is wrong."
        raise UsageError(message, code="job.effect.not_resolved", next_step=step)
    if len(found) != 1:
        number = f"{len(found)} effects" if found else "no effect"
        message = f"Chunk {chunk.ref} has {number} in doubt with this key."
        step = f"`piecework effects list {chunk.ref.job}` lists the keys."
        raise NotFoundError(message, code="job.effect.not_found", next_step=step)
    return found[0]


def require_fitting(row: EffectRow, answer: str) -> None:
    """Refuse an answer that the effect's function could not have returned.

    Raises:
        UsageError: `job.effect.answer_invalid`.
    """
    from piecework.answers import misfit  # loads pydantic: only writers need it

    if wrong := misfit(row.answer_schema, answer):
        message = f"The call of stage {row.stage!r} returns another answer: {wrong}."
        raise UsageError(message, code="job.effect.answer_invalid")
