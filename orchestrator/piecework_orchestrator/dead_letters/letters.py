"""Read dead letters as documents: each with its lineage, by cause, and as lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from piecework.aws.payloads import MOST_BYTES, PayloadRef, Payloads
from piecework.domain import keys
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.payload import row_of
from piecework.domain.refs import ChunkRef
from piecework.domain.strict_json import Bounds, read_json
from piecework.errors import NotFoundError, PermanentError, PieceworkError, StoreError
from piecework.runtime import Runtime
from piecework.store.completion import read_chunk
from piecework.store.dead_letters import OPEN
from piecework_orchestrator.operate.effects import effects_of_letters
from piecework_orchestrator.reading.job_documents import Document, dead_letters_of
from piecework_orchestrator.results.destination import open_destination
from piecework_orchestrator.results.json_text import encode_json


def chunk_name(chunk: int) -> str | int:
    """Return the number of a chunk, or `join`."""
    return "join" if chunk == keys.JOIN_CHUNK else chunk


def group_by_cause(letters: Sequence[DeadLetterRow]) -> list[Document]:
    """Return one document per fingerprint, the most frequent first."""
    found: dict[str, list[DeadLetterRow]] = defaultdict(list)
    for letter in letters:
        found[letter.fingerprint].append(letter)
    documents = [group_document(members) for members in found.values()]
    return sorted(documents, key=lambda one: (-one["count"], one["fingerprint"]))


def group_document(letters: Sequence[DeadLetterRow]) -> Document:
    """Return the document of one cause; its texts are those of the newest letter."""
    ordered = sorted(letters, key=lambda letter: letter.dead_lettered_at)
    first, last = ordered[0], ordered[-1]
    job, chunk, mark = last.ref.job, chunk_name(last.chunk), last.fingerprint
    names = ("error_class", "stage", "owner", "runbook")
    raised = last.pick(("raised",))
    step = f"piecework dlq show {job} {chunk}"
    if any(letter.state == OPEN for letter in letters):
        redrive = f"piecework dlq redrive --fingerprint {mark} --canary 1"
        step += f", then {redrive} --reason 'the fix'"
    return {
        "fingerprint": mark,
        "count": len(letters),
        "error_code": last.error_code,
        **last.document(names),
        "jobs": sorted({letter.ref.job for letter in letters}),
        "first_died_at": first.dead_lettered_at,
        "last_died_at": last.dead_lettered_at,
        "pipelines": sorted({letter.pipeline for letter in letters}),
        "sample": {"job": job, "chunk": chunk, **last.document(("error",)), **raised},
        "next": step,
    }


# ── read a dead letter with the chunk's earlier deaths ────────────────────────

#: The attributes that close a dead letter, by its new state: time, actor, reason.
CLOSING_ATTRIBUTES = {
    "REDRIVEN": ("redriven_at", "redriven_by", "redrive_reason"),
    "DISCARDED": ("discarded_at", "discarded_by", "discard_reason"),
}


async def dead_letter_document(rt: Runtime, ref: ChunkRef) -> Document:
    """Return the last dead letter of a chunk: error history, lineage and payload.

    Raises:
        NotFoundError: `job.dead_letter.not_found`.
    """
    letters = await dead_letters_of(rt).of_chunk(ref)
    if not letters:
        message = f"Chunk {ref} has no dead letter."
        step = f"`piecework dlq list --job {ref.job} --all`"
        raise NotFoundError(message, code="job.dead_letter.not_found", next_step=step)
    last = letters[-1]
    chunk = await read_chunk(rt.table, ref)
    now = {"status": str(chunk.status), "gen": chunk.gen} if chunk else {}
    return {
        **last.facts,
        "error_history": last.error_history,
        "deaths": len(letters),
        "lineage": lineage(letters),
        "chunk_now": now,
        "effects_in_doubt": len(await effects_of_letters(rt, [last])),
        **await payload_facts(rt, last),
    }


def lineage(letters: Sequence[DeadLetterRow]) -> list[Document]:
    """Return every death of a chunk, the oldest first, and how each was closed."""
    return [
        {
            "gen": letter.gen,
            "dead_lettered_at": letter.dead_lettered_at,
            "error_code": letter.error_code,
            "fingerprint": letter.fingerprint,
            **letter.document(("replay_of",)),
            "state": letter.state,
            **closing_facts(letter),
        }
        for letter in letters
    ]


def closing_facts(letter: DeadLetterRow) -> Document:
    """Return time, actor and reason of a dead letter's end, and its redrive."""
    names = CLOSING_ATTRIBUTES.get(letter.state, ())
    values = letter.document(names).values()
    facts = dict(zip(("at", "by", "why"), values, strict=False))
    return facts | letter.pick(("redriven_gen", "patch"))


async def write_letters(
    rt: Runtime,
    letters: Sequence[DeadLetterRow],
    to: str | Path,
    *,
    payloads: bool,
    unreadable: list[ChunkRef] | None = None,
) -> int:
    """Write dead letters to a path or to S3, one JSON document a line; return how many.

    `unreadable` is as in `letter_lines`.

    Raises:
        UsageError: `cli.usage.invalid`: the destination cannot be written.
        StoreError: S3 cannot be reached.
    """
    count = 0
    async with open_destination(rt, to) as file:
        lines = letter_lines(rt, letters, payloads=payloads, unreadable=unreadable)
        async for line in lines:
            file.write(line.encode())
            count += 1
    return count


async def letter_lines(
    rt: Runtime,
    letters: Sequence[DeadLetterRow],
    *,
    payloads: bool,
    unreadable: list[ChunkRef] | None = None,
) -> AsyncIterator[str]:
    """Yield a line for each dead letter, with the attributes of the table.

    Chunks whose error histories cannot be read are added to `unreadable`.

    Raises:
        PermanentError: `runtime.record.unreadable`: one, and `unreadable` is None.
    """
    for letter in letters:
        try:
            facts = letter.facts | {"error_history": letter.error_history}
        except PermanentError:
            if unreadable is None:
                raise
            unreadable.append(letter.ref)
            continue
        facts |= await payload_facts(rt, letter) if payloads else {}
        yield encode_json(facts) + "\n"


async def payload_facts(rt: Runtime, letter: DeadLetterRow) -> Document:
    """Return the payload of a dead chunk, or why it cannot be read.

    Raises:
        StoreError: The bucket cannot be reached.
    """
    ref, place = letter.ref, letter.payload
    if not place:
        return {}
    try:
        payload = await read_payload(rt, ref, place, letter.payload_sha256)
        return {"payload_at": place, "payload": payload}
    except (PieceworkError, ValueError) as error:
        # A role may show dead letters without their payloads.
        if isinstance(error, StoreError) and error.code != "aws.access.denied":
            raise
        code = error.code if isinstance(error, PieceworkError) else "not JSON"
        return {"payload_at": place, "payload": None, "payload_error": code}


async def read_payload(rt: Runtime, ref: ChunkRef, place: str, sha256: str) -> Any:
    """Return a stored payload as a JSON value, checked by its hash.

    Of a row that the submit has refused it is the row as it was given.

    Raises:
        StateError: `runtime.object.missing`.
        PermanentError: `runtime.payload.corrupt`.
        StoreError: The bucket cannot be reached, or refuses the read.
        ValueError: `place` does not name a payload.
    """
    payloads, where = Payloads(rt.objects), PayloadRef.parse(place)
    content = await payloads.read(ref.tenant, ref.job, where, sha256)
    return row_of(read_json(content, Bounds(MOST_BYTES), finite=False))
