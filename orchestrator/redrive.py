"""Reopen dead chunks after their cause was fixed, as an act on the job's record.

A redrive is a resume of the chunks that the dead letters name; the messages of the
dead-letter queue have no part in it. Provider keys are fresh, so that a provider does
not repeat its stored failure. The effect ledger is asked first, so that no effect
happens twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.editing import Edit, edit_payload, store_payload
from orchestrator.resume import (
    ReopenRequest,
    ResumeRequest,
    reopen,
    require_reopenable,
)
from piecework import keys
from piecework.errors import UsageError
from piecework.model import Chunk, ChunkStatus, Job, JobRef, JobStatus
from piecework.runtime import Runtime
from piecework.store.dead_letters import OPEN
from piecework.store.table import Item

#: The code of a redrive whose dead letters others have closed meanwhile.
NOTHING_LEFT = "redrive.selection.empty"


@dataclass(frozen=True, slots=True)
class RedriveRequest:
    """A redrive of dead letters of one job, as the operator requested it.

    Attributes:
        rate: Chunks dispatched a second; None: all at once.
        edit: The change of their payloads; None: the payloads stay.
    """

    ref: JobRef
    letters: Sequence[dict[str, Any]]
    actor: str
    reason: str
    rate: float | None = None
    edit: Edit | None = None


async def redrive(rt: Runtime, request: RedriveRequest) -> tuple[int, int]:
    """Redrive dead letters of a job; return how many, and the new generation.

    A dead letter is skipped if its chunk is not dead any more, or if the letter is
    closed. If all are skipped, no generation is started: its join would cost money and
    change nothing. The dead letter of a join is redriven by finishing the job again.

    Raises:
        NotFoundError: `job.record.not_found`.
        UsageError: `job.state.not_finished`; `redrive.payload.invalid`;
            `redrive.selection.empty`: all of them are closed.
    """
    job = await require_reopenable(rt, request.ref)
    found = [await to_reopen_request(rt, request, row) for row in request.letters]
    chunks = [one for one in found if one is not None]
    if not chunks and not await may_reopen_without_chunks(rt, request, job):
        message = f"The dead letters of job {request.ref.job} are closed already."
        step = f"`piecework dlq list --job {request.ref.job}`"
        raise UsageError(message, code=NOTHING_LEFT, next_step=step)
    resume = ResumeRequest(
        request.ref, request.actor, request.reason, rate=request.rate
    )
    refs, gen = await reopen(rt, job, chunks, resume, "redriven")
    return len(refs) + await count_redriven_joins(rt, request, gen), gen


async def to_reopen_request(
    rt: Runtime, request: RedriveRequest, row: Item
) -> ReopenRequest | None:
    """Return the chunk of a dead letter with its new payload; None: it is skipped."""
    ref = request.ref.chunk(row["chunk"])
    if ref.is_join:
        return None
    item, still_open = await asyncio.gather(
        rt.table.get(ref.pk, ref.sk), is_open(rt, request.ref, row)
    )
    if item is None or not still_open:
        return None
    chunk = Chunk.read(ref, item)
    if (chunk.status, chunk.gen) != (ChunkStatus.DEAD, row["gen"]):
        return None
    edited = await edit_payload(rt, row, request.edit) if request.edit else None
    patched = await store_payload(rt, row, edited) if edited else None
    return ReopenRequest(chunk, row, patched)


async def is_open(rt: Runtime, ref: JobRef, row: Item) -> bool:
    """Return whether a dead letter is still open; it was listed some time ago."""
    sk = keys.dead_letter_sk(row["chunk"], row["gen"])
    letter = await rt.dead_letters.get(ref.pk, sk)
    return letter is not None and letter["state"] == OPEN


async def may_reopen_without_chunks(
    rt: Runtime, request: RedriveRequest, job: Job
) -> bool:
    """Return whether to reopen a job though no chunk is left.

    That is so for the dead letter of a join, and for a reopening that was interrupted.
    """
    joins = [row for row in request.letters if row["chunk"] == keys.JOIN_CHUNK]
    interrupted = job.status is JobStatus.RESUMING
    return interrupted or any([await is_open(rt, request.ref, row) for row in joins])


async def count_redriven_joins(rt: Runtime, request: RedriveRequest, gen: int) -> int:
    """Count the dead letters of the join that this generation has closed."""
    count = 0
    for row in request.letters:
        if row["chunk"] == keys.JOIN_CHUNK:
            sk = keys.dead_letter_sk(keys.JOIN_CHUNK, row["gen"])
            letter = await rt.dead_letters.get(request.ref.pk, sk)
            count += (letter or {}).get("redriven_gen") == gen
    return count
