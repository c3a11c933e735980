"""Read the chunks of a job from the record, as documents for people and programs.

Nothing here writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection

from piecework.aws.objects import OBJECT_LIMIT, read_value
from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.identity import function_words
from piecework.domain.job import Job
from piecework.domain.refs import ChunkRef
from piecework.domain.rows import CompensatedRow, EffectRow, StageRow, told_once
from piecework.domain.states import ChunkStatus
from piecework.domain.strict_json import Bounds, read_json
from piecework.errors import NotFoundError, PieceworkError
from piecework.explain.changed import is_stopped, stop_document
from piecework.explain.waiting import wait_of
from piecework.reading import Reading
from piecework.store.checkpoints import Work, read_work
from piecework.store.completion import all_chunks, read_chunk
from piecework.store.results import NULL, is_inline, is_separate, stored_results
from piecework_orchestrator.reading.job_documents import Document, dead_letters_of

#: Maximum bytes of a result that is shown with its chunk; of a longer one, so many
#: characters.
RESULT_BYTES, RESULT_EXCERPT = 16_384, 4_096


async def read_chunks(
    rt: Reading, job: Job, statuses: Collection[str] = ()
) -> AsyncIterator[Document]:
    """Yield the chunks of a job, in order; only those of these statuses, if any."""
    stopped = await dead_letters_of(rt).stopped_keys(job)
    async for chunk in all_chunks(rt.table, job.ref, job.chunks):
        if not statuses or str(chunk.status) in statuses:
            yield chunk_facts(chunk, rt.clock(), stopped)


def chunk_facts(chunk: Chunk, now: float, stopped: Collection[str]) -> Document:
    """Return the attributes of a chunk, and the reason of its wait."""
    wait = wait_of(chunk, now, stopped)
    return {**chunk.facts, **({"wait": wait.document} if wait else {})}


async def require_chunk(rt: Reading, ref: ChunkRef) -> Chunk:
    """Return a chunk.

    Raises:
        NotFoundError: `job.chunk.not_found`.
    """
    chunk = await read_chunk(rt.table, ref)
    if chunk is None:
        message = f"Chunk {ref} does not exist."
        step = f"`piecework chunks list {ref.job}`"
        raise NotFoundError(message, code="job.chunk.not_found", next_step=step)
    return chunk


async def chunk_document(rt: Reading, job: Job, number: int) -> Document:
    """Return a chunk with its stages, calls, effects, errors and compensations.

    An open chunk of a paused job has the pause, too. One that newer code has stopped
    has what earlier claims did, and what stops the newer code.
    """
    ref = job.ref.chunk(number)
    chunk = await require_chunk(rt, ref)
    work, result, stopped = await asyncio.gather(
        read_work(rt.table, ref, chunk),
        separate_result(rt, chunk),
        dead_letters_of(rt).stopped_keys(job),
    )
    pause = None if chunk.status.ended else job.pause
    return {
        **chunk_facts(chunk, rt.clock(), stopped),
        **({} if pause is None else {"job_paused": pause.document()}),
        **({"stopped": stop_document(chunk, work)} if is_stopped(chunk) else {}),
        "stages": stage_documents(chunk, work, result),
        "calls_in_journal": sum(page.count for page in work.calls),
        "effects": sorted(
            (effect_document(row) for row in work.effects),
            key=lambda document: str(document["started_at"]),
        ),
        "errors": [row.facts for row in told_once(work.errors)],
        "compensated": sorted(
            (compensation_document(row) for row in work.compensated),
            key=lambda document: str(document["at"]),
        ),
    }


async def result_document(rt: Reading, job: Job, number: int) -> Document:
    """Return the result of a chunk, of a long one its beginning, or why neither.

    A chunk without a result has an empty document.
    """
    ref = job.ref.chunk(number)
    chunk = await require_chunk(rt, ref)
    if chunk.status is not ChunkStatus.SUCCEEDED:
        return {}
    ((_, row),) = await stored_results(rt.table, ref.pk, [chunk])
    prefix = keys.object_prefix(job.ref.tenant, job.ref.job)

    async def get(key: str) -> bytes:
        return await rt.objects.get(key, most=OBJECT_LIMIT)

    try:
        text = NULL if row is None else await read_value(get, row, prefix)
    except PieceworkError as error:
        return {"result_error": f"{error.code}: {error.message}"}
    size = len(text.encode())
    if size > RESULT_BYTES:
        return {"result_excerpt": text[:RESULT_EXCERPT], "result_bytes": size}
    return {"result": read_json(text, Bounds(RESULT_BYTES), finite=False)}


async def separate_result(rt: Reading, chunk: Chunk) -> StageRow | None:
    """Return the row of a result that is not on the chunk's item."""
    if not is_separate(chunk):
        return None
    item = await rt.table.get(chunk.ref.pk, keys.result_sk(chunk.ref.chunk))
    return None if item is None else StageRow(item)


def stage_documents(
    chunk: Chunk, work: Work, result: StageRow | None
) -> list[Document]:
    """Return the stages with a stored value, in the order of their end."""
    times = ("stage", "started_at", "finished_at")
    names = (*times, "worker", "attempt", "gen", "fence", "code_version")
    found = {row.stage: row.document(names) for row in work.stages}
    if result is not None:
        found[result.stage] = result.document(names)
    elif is_inline(chunk) and not chunk.result_stage:
        values = (chunk.stage, chunk.started_at, chunk.ended_at, chunk.ended_by)
        more = (chunk.attempts, chunk.gen, chunk.fence, chunk.code_version or None)
        found[chunk.stage] = dict(zip(names, values + more, strict=True))
    of = result.stage if result is not None else chunk.result_stage or chunk.stage
    has_result = result is not None or is_inline(chunk)
    done = [
        row | {"is_result": has_result and name == of} for name, row in found.items()
    ]
    return sorted(done, key=lambda row: str(row["finished_at"]))


def effect_document(row: EffectRow) -> Document:
    """Return an effect of the ledger as a document."""
    names = ("stage", "state", "effect", "started_at", "ended_at", "effect_key")
    called = {"called": function_words(row.called), "dependency": row.dependency}
    return row.document(names) | called


def compensation_document(row: CompensatedRow) -> Document:
    """Return a compensation as a document.

    A stage that was compensated in an earlier generation may have run again since.
    """
    ok = not row.has_failed
    return {"stage": row.stage, "at": row.finished_at, "gen": row.gen, "ok": ok}
