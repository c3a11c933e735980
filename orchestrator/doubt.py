"""Effects of which nobody knows whether they happened, and a person's word on them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from orchestrator.inspector import effect, require_chunk
from piecework import keys
from piecework.errors import NotFoundError, UsageError
from piecework.model import Chunk, ChunkRef, ChunkStatus, Job, iso
from piecework.runtime import Runtime
from piecework.store.census import all_chunks
from piecework.store.doubts import Finding, settle_doubt
from piecework.store.ledger import DONE, INTENT, REFUSED, UNKNOWN
from piecework.store.work import read_work

#: What has ended without a result: nobody is about to find out by itself.
LEFT = frozenset({ChunkStatus.DEAD, ChunkStatus.CANCELLED})


@dataclass(frozen=True, slots=True)
class Word:
    """What a person says of an effect.

    Attributes:
        key: The effect's key, or how it begins.
        answer: What the call returned, as JSON; None: it did not happen.
    """

    key: str
    answer: str | None
    actor: str
    reason: str


async def doubts(
    rt: Runtime, job: Job, only: int | None = None
) -> AsyncIterator[dict[str, Any]]:
    """Yield the effects in doubt of the chunks that ended without a result."""
    if only is not None:
        for row in await of_chunk(rt, await require_chunk(rt, job.ref.chunk(only))):
            yield row
        return
    async for chunk in all_chunks(rt.table, job.ref, job.chunks):
        if chunk.status in LEFT:
            for row in await of_chunk(rt, chunk):
                yield row


async def of_chunk(rt: Runtime, chunk: Chunk) -> list[dict[str, Any]]:
    """Return the effects in doubt of a chunk, the oldest first."""
    work = await read_work(rt.table, chunk.ref)
    found = [
        {"chunk": chunk.ref.chunk, "status": str(chunk.status), **effect(row)}
        for row in work.kind("EFFECT")
        if row["effect_state"] in {INTENT, UNKNOWN}
    ]
    return sorted(found, key=lambda row: str(row["begun_at"]))


async def settle(rt: Runtime, ref: ChunkRef, word: Word) -> dict[str, Any]:
    """Write what a person found out about an effect; return what was settled.

    Raises:
        NotFoundError: `job.chunk.not_found`, `job.effect.not_found`.
        UsageError: `job.effect.not_settled`: the chunk is being worked on, or the
            effect is not in doubt any more.
    """
    chunk = await require_chunk(rt, ref)
    key = await full_key(rt, chunk, word.key)
    answer = None
    if word.answer is not None:
        at = f"{keys.object_prefix(ref.tenant, ref.job)}/effects/{key}"
        answer = await rt.objects.stow(word.answer, at)
    finding = Finding(word.actor, word.reason, iso(rt.clock()), answer)
    if chunk.status not in LEFT or not await settle_doubt(
        rt.table, chunk, key, finding
    ):
        message = (
            f"Chunk {ref} is {chunk.status}, or has moved on: nothing was settled."
        )
        raise UsageError(message, code="job.effect.not_settled")
    state = REFUSED if answer is None else DONE
    facts = {"chunk": ref.chunk, "effect_key": key, "effect_state": state}
    told = {"actor": word.actor, "reason": word.reason}
    await rt.jobs.record(ref.of, "effect settled", facts | told)
    return {"job": ref.job, "status": str(chunk.status), **facts}


async def full_key(rt: Runtime, chunk: Chunk, beginning: str) -> str:
    """Return the key of the one effect in doubt whose key begins so."""
    found = [str(row["effect_key"]) for row in await of_chunk(rt, chunk)]
    meant = [key for key in found if beginning and key.startswith(beginning)]
    if len(meant) != 1:
        many = f"{len(meant)} effects" if meant else "no effect"
        message = f"Chunk {chunk.ref} has {many} in doubt whose key begins so."
        step = f"`piecework effects list {chunk.ref.job}` has the keys."
        raise NotFoundError(message, code="job.effect.not_found", next_step=step)
    return meant[0]
