"""Hand dead chunks out again, after what killed them was fixed: an act on the record.

It is a resume of the chunks that the dead letters name. The messages of the
dead-letter queue have no part in it. Provider keys are fresh, so that a stored failure
does not answer for ever; the ledger is asked first, so that nothing is done twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.resume import Resume, reopen, resumable
from piecework import keys
from piecework.model import Chunk, ChunkStatus, JobRef
from piecework.runtime import Runtime
from piecework.store.dead_letters import DeadLetters


@dataclass(frozen=True, slots=True)
class Redrive:
    """What a person asked for, and who it was."""

    ref: JobRef
    letters: Sequence[dict[str, Any]]
    actor: str
    reason: str


async def redrive(rt: Runtime, asked: Redrive) -> tuple[int, int]:
    """Redrive dead letters of a job; return how many, and the new generation.

    A letter whose chunk is not dead any more is left alone. That of a join is
    redriven by finishing the job anew.

    Raises:
        NotFoundError: `job.record.not_found`.
        UsageError: `job.state.not_finished`.
    """
    job = await resumable(rt, asked.ref)
    chunks = [c for row in asked.letters if (c := await dead_chunk(rt, asked.ref, row))]
    resume = Resume(asked.ref, asked.actor, asked.reason)
    refs, gen = await reopen(rt, job, chunks, resume, "redriven")
    redriven = {ref.chunk for ref in refs} | {keys.JOIN_CHUNK}
    letters = DeadLetters(rt.dead_letters, rt.settings, rt.clock)
    done = 0
    for row in asked.letters:
        if row["chunk"] in redriven:
            ref = asked.ref.chunk(row["chunk"])
            done += await letters.redriven(
                ref, row["gen"], next_gen=gen, actor=asked.actor, reason=asked.reason
            )
    return done, gen


async def dead_chunk(rt: Runtime, ref: JobRef, row: dict[str, Any]) -> Chunk | None:
    """Return the chunk of a letter if it is dead of just that death."""
    chunk_ref = ref.chunk(row["chunk"])
    item = await rt.table.get(chunk_ref.pk, chunk_ref.sk)
    if item is None or chunk_ref.is_join:
        return None
    chunk = Chunk.read(chunk_ref, item)
    return (
        chunk if (chunk.status, chunk.gen) == (ChunkStatus.DEAD, row["gen"]) else None
    )
