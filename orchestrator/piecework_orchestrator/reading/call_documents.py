"""Read the calls of a chunk from its rows, as documents for people and programs.

records     how each call went, on the pages of the journal and on the chunk's row
answers     in the journal and in the ledger
arguments   in the objects that claims keep on purpose
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from piecework.aws.objects import OBJECT_LIMIT, read_value
from piecework.domain import keys, records
from piecework.domain.budget import NANO
from piecework.domain.call_record import KEY_LENGTH, CallRecord, read_records
from piecework.domain.chunk import Chunk
from piecework.domain.identity import function_words
from piecework.domain.job import Job
from piecework.domain.kept_call import read_kept
from piecework.domain.moments import iso, moment
from piecework.domain.refs import ChunkRef
from piecework.domain.rows import EffectRow, Row
from piecework.errors import NotFoundError, StateError, StoreError
from piecework.reading import Reading
from piecework.store.checkpoints import Work, read_work
from piecework.store.completion import chunks_of_group, read_chunk
from piecework.store.table import Item
from piecework_orchestrator.reading.chunk_documents import require_chunk
from piecework_orchestrator.reading.job_documents import Document

#: The setting under which arguments are kept, for those who miss them.
HOW_TO_KEEP = "PIECEWORK_RECORD_CALLS=all keeps those of all calls"


#: A chunk, and one of its calls as a document.
CallRow: TypeAlias = tuple[Chunk, Document]


@dataclass(slots=True)
class Calls:
    """The calls of a chunk.

    Attributes:
        records: How they went, as the rows have it.
        listed: One document a call, in the order in which they were asked for.
        kept: The kept arguments of each call, by its key: the oldest first.
        denied: Why the arguments could not be read; empty: they were.
    """

    chunk: Chunk
    work: Work
    records: list[CallRecord]
    listed: list[Document] = field(default_factory=list)
    kept: dict[str, list[Document]] = field(default_factory=dict)
    denied: str = ""


async def call_documents(rt: Reading, job: Job, number: int) -> list[Document]:
    """Return how each call of a chunk went, in the order in which it was asked for.

    Raises:
        NotFoundError: `job.chunk.not_found`.
    """
    return (await read_calls(rt, job.ref.chunk(number))).listed


async def call_document(rt: Reading, job: Job, number: int, call: int) -> Document:
    """Return a call by its number, with its arguments and its answer.

    Raises:
        NotFoundError: `job.chunk.not_found`, `job.call.not_found`.
    """
    ref = job.ref.chunk(number)
    found = await read_calls(rt, ref)
    if not 1 <= call <= len(found.listed):
        message = f"Chunk {ref} has no call {call}; it has {len(found.listed)}."
        step = f"`piecework chunks calls {ref.job} {ref.chunk}`"
        raise NotFoundError(message, code="job.call.not_found", next_step=step)
    document = found.listed[call - 1]
    key = document["key"]
    kept = found.kept.get(key, [])
    answer = await stored_answer(rt, found, key)
    asked = [each for each in kept if each.get("claim") == document["claim"]] or kept
    refused = [each for one in asked for each in one.get("refused", [])]
    arguments = asked[-1].get("arguments") if asked else None
    if answer is None and asked:
        answer = asked[-1].get("answer")
    return {
        **document,
        "arguments": value_of(arguments),
        "answer": value_of(answer),
        "refused": [{**each, "answer": value_of(each["answer"])} for each in refused],
        "message": asked[-1].get("message", "") if asked else "",
        "missing": missing_text(document, arguments, answer, found.denied),
    }


def missing_text(
    document: Document, arguments: object, answer: object, denied: str
) -> str:
    """Return why arguments or an answer are not shown; empty: both are."""
    missing = []
    if denied:
        missing.append(f"your role may not read payloads and arguments ({denied})")
    elif arguments is None:
        missing.append(f"its arguments were not kept ({HOW_TO_KEEP})")
    if answer is None and document["end"] in {"made", "cached", "found", "replayed"}:
        missing.append(
            "its answer was not kept: the chunk succeeded before the journal wrote it"
        )
    return "; ".join(missing)


def value_of(text: object) -> object:
    """Return a JSON text as its value; another text, such as a beginning, as it is."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


async def read_calls(rt: Reading, ref: ChunkRef) -> Calls:
    """Read the calls of a chunk.

    Raises:
        NotFoundError: `job.chunk.not_found`.
    """
    chunk = await require_chunk(rt, ref)
    found = calls_of(chunk, await read_work(rt.table, ref, chunk))
    await read_arguments(rt, found)
    found.listed = listed(found)
    return found


def calls_of(chunk: Chunk, work: Work) -> Calls:
    """Return the calls that the rows of a chunk record."""
    stored = [
        each for page in work.calls for each in read_records(page.item, "records")
    ]
    return Calls(chunk, work, stored + read_records(chunk.item, "call_records"))


def listed(found: Calls) -> list[Document]:
    """Return one document a call, in the order in which they were asked for."""
    rows = list(call_rows(found))
    rows.sort(key=lambda row: str(row["asked_at"] or "~"))
    return [{"call": n, **row} for n, row in enumerate(rows, start=1)]


# ── the calls of a job, partition by partition ────────────────────────────────


async def calls_of_job(
    rt: Reading, job: Job, only: int | None = None
) -> AsyncIterator[CallRow]:
    """Yield each call of a job with its chunk, or those of one chunk.

    Whether arguments were kept is not read.

    Raises:
        NotFoundError: `job.chunk.not_found`: of `only`.
    """
    if only is not None:
        ref = job.ref.chunk(only)
        named = await require_chunk(rt, ref)
        works = one_work(named, await read_work(rt.table, ref, named))
    else:
        works = works_of_job(rt, job)
    async for work in works:
        if (chunk := work.chunk) is not None:
            for call in listed(calls_of(chunk, work)):
                yield chunk, call


async def one_work(chunk: Chunk, work: Work) -> AsyncIterator[Work]:
    """Yield the rows of one chunk."""
    yield Work(work.rows, chunk)


async def works_of_job(rt: Reading, job: Job) -> AsyncIterator[Work]:
    """Yield the rows of each chunk and of the join, in order.

    The rows of a partition are read in their order, in pages of a megabyte.
    """
    for group in range(keys.partition_count(job.chunks)):
        chunks = [c async for c in chunks_of_group(rt.table, job.ref, group)]
        pk = keys.partition_pk(job.ref.tenant, job.ref.job, group)
        found = rows_by_chunk(rt.table.query(pk, keys.WORK_PREFIX))
        following = await anext(found, None)
        for chunk in chunks:
            own = keys.chunk_name(chunk.ref.chunk)
            while following is not None and following[0] < own:
                following = await anext(found, None)
            has_rows = following is not None and following[0] == own
            yield Work(following[1] if following and has_rows else {}, chunk)
    ref = job.ref.chunk(keys.JOIN_CHUNK)
    if (join := await read_chunk(rt.table, ref)) is not None:
        yield await read_work(rt.table, ref, join)


async def rows_by_chunk(
    items: AsyncIterator[Item],
) -> AsyncIterator[tuple[str, dict[str, Item]]]:
    """Yield the rows of each chunk under its name in keys."""
    name, rows = "", dict[str, Item]()
    async for item in items:
        own, _, part = item["sk"].removeprefix(keys.WORK_PREFIX).partition("#")
        if own != name and rows:
            yield name, rows
            rows = {}
        name = own
        rows[part] = item
    if rows:
        yield name, rows


async def read_arguments(rt: Reading, found: Calls) -> None:
    """Read the objects in which the claims of a chunk keep arguments."""
    ref = found.chunk.ref
    for fence in sorted({each.fence for each in found.records if each.kept}):
        name = keys.kept_calls_key(ref.tenant, ref.job, ref.chunk, fence)
        try:
            content = await rt.objects.get(name, most=OBJECT_LIMIT)
        except StateError:  # its chunk did not die of the calls that failed
            continue
        except StoreError as error:
            if error.is_outage:
                raise
            found.denied = error.code
            return
        for line in read_kept(content):
            kept = found.kept.setdefault(str(line.get("key", "")), [])
            kept.append({**line, "claim": fence})


def call_rows(found: Calls) -> Iterator[Document]:
    """Yield the calls: those with a record, then the effects without one."""
    chunk, work, stored = found.chunk, found.work, found.records
    effects = {row.key[:KEY_LENGTH]: row for row in work.effects}
    versions = {page.fence: page.code_version for page in work.calls}
    versions[chunk.fence] = chunk.code_version
    replayed: dict[str, list[int]] = {}
    for each in stored:
        if each.end == "replayed":
            replayed.setdefault(each.key, []).append(each.fence)
    whole = [each for each in stored if each.end != "replayed"]
    for each in whole:
        row = record_document(each, versions.get(each.fence, ""))
        effect = effects.pop(each.key, None)
        yield {
            **row,
            "effect": "" if effect is None else effect.state,
            "replayed_by": replayed.pop(each.key, []),
            "arguments_kept": each.key in found.kept,
        }
    for left in effects.values():
        yield {
            **effect_document(left),
            "replayed_by": replayed.pop(left.key[:KEY_LENGTH], []),
            "arguments_kept": False,
        }
    for key, fences in replayed.items():
        record = record_document(CallRecord(key, fences[0]), "")
        yield {**record, "effect": "", "replayed_by": fences, "arguments_kept": False}


def record_document(record: CallRecord, code_version: str) -> Document:
    """Return a record as a document."""
    return {
        "stage": record.stage,
        "dependency": record.dependency,
        "function": record.function,
        "end": record.end,
        "code": record.code,
        "attempts": len(record.attempts) + (record.end == "made"),
        "failed_attempts": [
            {"code": each.code, "delay_s": each.delay_ms / 1000}
            for each in record.attempts
        ],
        "asked_at": iso(record.asked_at / 1000) if record.asked_at else "",
        "waited_s": record.waited_ms / 1000,
        "took_s": record.took_ms / 1000,
        "tokens_in": record.tokens_in,
        "tokens_out": record.tokens_out,
        "usd": record.nano_usd / NANO,
        "key": record.key,
        "claim": record.fence,
        "code_version": code_version,
    }


def effect_document(row: EffectRow) -> Document:
    """Return an effect whose record is lost, or that has not ended."""
    began = moment(row.started_at)
    ended = records.read_optional_text(row.item, "ended_at")
    took = 0.0 if ended is None else moment(ended) - began
    in_flight = row.state == "INTENT"
    record = CallRecord(
        key=row.key[:KEY_LENGTH],
        fence=row.fence or 0,
        end="made" if row.state in {"DONE", "COMPENSATED"} else "cut off",
        stage=row.stage,
        dependency=row.dependency,
        function=function_words(row.called, with_version=False),
        asked_at=round(began * 1000),
        took_ms=round(took * 1000),
    )
    end = {"end": "in flight or in doubt"} if in_flight else {}
    return {
        **record_document(record, row.code_version),
        **end,
        "effect": row.state,
    }


async def stored_answer(rt: Reading, found: Calls, key: str) -> str | None:
    """Return the answer of a call as JSON; None: no row has it.

    Raises:
        PermanentError: `runtime.record.unreadable`, `runtime.payload.corrupt`.
    """
    ref = found.chunk.ref
    prefix = keys.object_prefix(ref.tenant, ref.job)

    async def get(key: str) -> bytes:
        return await rt.objects.get(key, most=OBJECT_LIMIT)

    for page in reversed(found.work.calls):
        for name, text in page.read_answers().items():
            if name.startswith(key):
                return str(text)
        for name, entry in page.large.items():
            if name.startswith(key):
                return await read_value(get, Row(entry), prefix)
    for row in found.work.effects:
        if row.key.startswith(key) and ("value" in row.item or "value_at" in row.item):
            return await read_value(get, row, prefix)
    return None
