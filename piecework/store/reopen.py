"""Take an ended chunk up again: an operator's write, in a new generation."""

from __future__ import annotations

from piecework import keys
from piecework.model import Chunk, ChunkStatus, JobStatus
from piecework.store.table import Table, Written

#: Still ended as it was, in the life that was looked at. A result is never undone.
ENDED_AS_SEEN = "#status = :seen AND #status IN (:dead, :cancelled) AND gen = :gen"
#: An operator who is late, and whose job has ended again since, takes nothing up.
BEING_RESUMED = "#status = :resuming AND gen = :next"


async def reopen_chunk(table: Table, chunk: Chunk, gen: int) -> bool:
    """DEAD | CANCELLED -> PENDING in generation `gen`, with all its attempts before it.

    It goes on at `resume_at`, its first stage that is not done or was undone, else
    where it stood. The fence goes on rising, so that no claim of an earlier life can
    be mistaken.
    """
    update = table.action(
        "Update",
        chunk.ref.pk,
        chunk.ref.sk,
        condition=ENDED_AS_SEEN,
        update="SET #status = :pending, gen = :next, attempts = :zero, stage = :stage"
        " ADD replays :one REMOVE settled_at, direction, compensation, resume_at,"
        " recoveries, releases, retry_at, due_at, dispatches, cancel_requested,"
        " undo_requested, cancelled, late_calls",
        values={
            "seen": chunk.status,
            "dead": ChunkStatus.DEAD,
            "cancelled": ChunkStatus.CANCELLED,
            "gen": chunk.gen,
            "pending": ChunkStatus.PENDING,
            "next": gen,
            "zero": 0,
            "one": 1,
            "stage": str(chunk.item.get("resume_at", chunk.item["stage"])),
        },
    )
    check = table.action(
        "ConditionCheck",
        chunk.ref.of.pk,
        keys.META_SK,
        condition=BEING_RESUMED,
        values={"resuming": JobStatus.RESUMING, "next": gen},
    )
    return isinstance(await table.transact([update, check]), Written)
