"""Hand dead chunks out again, after what killed them was fixed: an act on the record.

It is a resume of the chunks that the dead letters name. The messages of the
dead-letter queue have no part in it. Provider keys are fresh, so that a stored failure
does not answer for ever; the ledger is asked first, so that nothing is done twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.editing import Edit, edited, store
from orchestrator.resume import Resume, Wish, reopen, resumable
from piecework import keys
from piecework.errors import UsageError
from piecework.model import Chunk, ChunkStatus, Job, JobRef, JobStatus
from piecework.runtime import Runtime
from piecework.store.dead_letters import OPEN
from piecework.store.table import Item

#: That somebody else has closed what was to be redriven.
NOTHING_LEFT = "redrive.selection.empty"


@dataclass(frozen=True, slots=True)
class Redrive:
    """What a person asked for, and who it was.

    Attributes:
        rate: Chunks handed out a second; None: all at once.
        edit: What becomes of their payloads; None: they stay.
    """

    ref: JobRef
    letters: Sequence[dict[str, Any]]
    actor: str
    reason: str
    rate: float | None = None
    edit: Edit | None = None


async def redrive(rt: Runtime, asked: Redrive) -> tuple[int, int]:
    """Redrive dead letters of a job; return how many, and the new generation.

    A letter whose chunk is not dead any more, or that somebody has closed, is left
    alone; with none left there is no new generation, whose join would cost and change
    nothing. That of a join is redriven by finishing the job anew.

    Raises:
        NotFoundError: `job.record.not_found`.
        UsageError: `job.state.not_finished`; `redrive.payload.invalid`;
            `redrive.selection.empty`: others have closed them all.
    """
    job = await resumable(rt, asked.ref)
    found = [await wish(rt, asked, row) for row in asked.letters]
    wishes = [one for one in found if one is not None]
    if not wishes and not await has_reason(rt, asked, job):
        message = f"Of these dead letters of job {asked.ref.job} none is open any more."
        step = f"`piecework dlq list --job {asked.ref.job}`"
        raise UsageError(message, code=NOTHING_LEFT, next_step=step)
    resume = Resume(asked.ref, asked.actor, asked.reason, rate=asked.rate)
    refs, gen = await reopen(rt, job, wishes, resume, "redriven")
    return len(refs) + await redriven_joins(rt, asked, gen), gen


async def wish(rt: Runtime, asked: Redrive, row: Item) -> Wish | None:
    """Return the chunk of a letter, with its payload to be, if it died just so."""
    ref = asked.ref.chunk(row["chunk"])
    if ref.is_join:
        return None
    item, still_open = await asyncio.gather(
        rt.table.get(ref.pk, ref.sk), is_open(rt, asked.ref, row)
    )
    if item is None or not still_open:
        return None
    chunk = Chunk.read(ref, item)
    if (chunk.status, chunk.gen) != (ChunkStatus.DEAD, row["gen"]):
        return None
    found = await edited(rt, row, asked.edit) if asked.edit else None
    return Wish(chunk, row, await store(rt, row, found) if found else None)


async def is_open(rt: Runtime, ref: JobRef, row: Item) -> bool:
    """Say whether a letter is open still; it was listed before a person was asked."""
    sk = keys.dead_letter_sk(row["chunk"], row["gen"])
    letter = await rt.dead_letters.get(ref.pk, sk)
    return letter is not None and letter["letter_state"] == OPEN


async def has_reason(rt: Runtime, asked: Redrive, job: Job) -> bool:
    """Say whether to go on without a chunk: for a join, or what stopped half-way."""
    joins = [row for row in asked.letters if row["chunk"] == keys.JOIN_CHUNK]
    half_way = job.status is JobStatus.RESUMING
    return half_way or any([await is_open(rt, asked.ref, row) for row in joins])


async def redriven_joins(rt: Runtime, asked: Redrive, gen: int) -> int:
    """Count the letters of the join that were closed as it was taken up."""
    count = 0
    for row in asked.letters:
        if row["chunk"] == keys.JOIN_CHUNK:
            sk = keys.dead_letter_sk(keys.JOIN_CHUNK, row["gen"])
            letter = await rt.dead_letters.get(asked.ref.pk, sk)
            count += (letter or {}).get("redriven_as") == gen
    return count
