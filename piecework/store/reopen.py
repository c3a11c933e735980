"""Take an ended chunk up again: an operator's write, in a new generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from piecework import keys
from piecework.model import Chunk, ChunkStatus, JobStatus, iso
from piecework.store.table import Action, Table, Written

#: Still ended as it was, in the life that was looked at. A result is never undone.
ENDED_AS_READ = "#status = :seen AND #status IN (:dead, :cancelled) AND gen = :gen"
#: What has ended in this very life already, is taken up in the next: the rows of its
#: way back would be taken for those of a new one.
EARLIER = "gen < :next"
#: An operator who is late, and whose job has ended again since, takes nothing up.
BEING_RESUMED = "#status = :resuming AND gen = :next"


@dataclass(frozen=True, slots=True)
class Patched:
    """Another payload than the chunk died with: where it lies, and what was changed."""

    payload: str
    payload_sha256: str
    patch: str


@dataclass(frozen=True, slots=True)
class Turn:
    """When a chunk is worked on again at the earliest, and when it is overdue."""

    not_before: float
    due: float


@dataclass(frozen=True, slots=True)
class Reopening:
    """What becomes of a chunk that is taken up again.

    Attributes:
        also: What goes with it: its dead letter is closed.
    """

    patched: Patched | None = None
    turn: Turn | None = None
    also: Sequence[Action] = field(default=())


async def reopen_chunk(
    table: Table, chunk: Chunk, gen: int, how: Reopening | None = None
) -> bool:
    """DEAD | CANCELLED -> PENDING in generation `gen`, with all its attempts before it.

    It goes on at `resume_at`, its first stage that is not done or was undone, else
    where it stood. The fence goes on rising, so that no claim of an earlier life can
    be mistaken. What was dead remembers of which death it is the replay.
    """
    how = how or Reopening()
    check = table.action(
        "ConditionCheck",
        chunk.ref.of.pk,
        keys.META_SK,
        condition=BEING_RESUMED,
        values={"resuming": JobStatus.RESUMING, "next": gen},
    )
    actions = [reopening(table, chunk, gen, how), check, *how.also]
    return isinstance(await table.transact(actions), Written)


def reopening(table: Table, chunk: Chunk, gen: int, how: Reopening) -> Action:
    """Return the write to the chunk's own item."""
    assignments = (
        "SET #status = :pending, gen = :next, attempts = :zero, stage = :stage"
    )
    removed = (
        " ADD replays :one REMOVE settled_at, direction, compensation, resume_at,"
        " recoveries, releases, deferrals, redispatches, cancel_requested_at,"
        " compensate_requested, cancelled_at_stage, calls_after_cancel"
    )
    values = {
        "seen": chunk.status,
        "dead": ChunkStatus.DEAD,
        "cancelled": ChunkStatus.CANCELLED,
        "gen": chunk.gen,
        "pending": ChunkStatus.PENDING,
        "next": gen,
        "zero": 0,
        "one": 1,
        "stage": str(chunk.item.get("resume_at", chunk.item["stage"])),
    }
    if chunk.status is ChunkStatus.DEAD:
        assignments += (
            ", replay_of = :gen, origin_gen = if_not_exists(origin_gen, :gen)"
        )
    if how.patched is not None:
        assignments += (
            ", payload = :payload, payload_sha256 = :sha256, patched_in_gen = :next"
        )
        values |= {
            "payload": how.patched.payload,
            "sha256": how.patched.payload_sha256,
        }
    if how.turn is None:
        removed += ", retry_at, redispatch_at"
    else:
        assignments += ", retry_at = :turn, redispatch_at = :due"
        values |= {"turn": iso(how.turn.not_before), "due": iso(how.turn.due)}
    return table.action(
        "Update",
        chunk.ref.pk,
        chunk.ref.sk,
        condition=f"{ENDED_AS_READ} AND {EARLIER}",
        update=assignments + removed,
        values=values,
    )
