"""Reopen an ended chunk in a new generation: an operator's write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.moments import iso
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.store.cancellation import COMPENSATING
from piecework.store.table import ItemWrite, Table, Written

#: The chunk is as it was read, without a result. A result is never discarded.
ENDED_AS_READ = "#status = :seen AND #status IN (:dead, :cancelled) AND gen = :gen"
#: The next chunk of its order key may have run since: it cannot run after that one.
NOT_SKIPPED = "attribute_not_exists(skipped_at)"
#: A chunk is never reopened in the generation in which it ended. The rows of its
#: compensation would be read as those of a new one.
EARLIER = "gen < :next"
#: A late operator reopens nothing if the job has ended again since.
BEING_REOPENED = "#status = :reopening AND gen = :next"


@dataclass(frozen=True, slots=True)
class Patched:
    """The patched payload of a chunk: its place, its hash and the patch."""

    payload: str
    payload_sha256: str
    patch: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a reopened chunk may start, and when it is redispatched (Unix time)."""

    not_before: float
    due: float


@dataclass(frozen=True, slots=True)
class Restart:
    """From where a reopened chunk runs stages again that have completed.

    Attributes:
        stage: The stage at which it continues.
        stages: The entries of the stages that it keeps: the others never ran.
        repeats: Whether the operator lets their acts happen twice.
    """

    stage: str
    stages: Mapping[str, Mapping[str, Any]]
    repeats: bool = False


class Continuation(Protocol):
    """A failed compensation that a reopened chunk continues."""

    def puts(self, table: Table, chunk: Chunk, gen: int) -> list[ItemWrite]:
        """Return the rows with which generation `gen` continues it."""


@dataclass(frozen=True, slots=True)
class Reopening:
    """Options of a reopened chunk.

    Attributes:
        also: Further writes of the transaction, such as the closing of a dead letter.
        compensation: The compensation that the chunk runs again; None: it goes forward.
        restart: The completed stages that run again; None: it keeps all.
    """

    patched: Patched | None = None
    schedule: Schedule | None = None
    also: Sequence[ItemWrite] = field(default=())
    compensation: Continuation | None = None
    restart: Restart | None = None


async def reopen_chunk(
    table: Table, chunk: Chunk, gen: int, how: Reopening | None = None
) -> bool:
    """Move DEAD | CANCELLED -> PENDING in generation `gen`, with all attempts left.

    It continues at `resume_at`, the first incomplete or compensated stage; without it,
    at its cursor. The fence keeps rising, so that no claim of an earlier
    generation is valid. A dead chunk stores which dead letter it replays. A chunk that
    compensates again stays at its cursor, and its claims only compensate. With a
    `restart` the row no longer names the stages that run again. It still names what it
    named when it was read: only a claim completes a stage, and an ended chunk has none.
    """
    how = how or Reopening()
    check = table.item_write(
        "ConditionCheck",
        chunk.ref.of.pk,
        keys.META_SK,
        condition=BEING_REOPENED,
        values={"reopening": JobStatus.REOPENING, "next": gen},
    )
    rows = how.compensation.puts(table, chunk, gen) if how.compensation else []
    writes = [reopening(table, chunk, gen, how), check, *rows, *how.also]
    return isinstance(await table.transact(writes), Written)


def reopening(table: Table, chunk: Chunk, gen: int, how: Reopening) -> ItemWrite:
    """Return the write on the chunk's item."""
    assignments = "SET #status = :pending, gen = :next, attempts = :zero"
    assignments += ", direction = :back" if how.compensation else ", stage = :stage"
    removed = " ADD replays :one REMOVE ended_at, compensation, resume_at,"
    removed += "" if how.compensation else " direction,"
    removed += (
        " recoveries, releases, takeovers, deferrals, breaker_deferrals,"
        " breaker_since, budget_deferrals, stage_deferrals, early_deferrals,"
        " failed_probes, outages, exhaustions, redispatches, lease_released_at,"
        " cancelled_at_stage, cancel_requested_at, compensate_requested,"
        " calls_after_cancel"
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
        **({"back": COMPENSATING} if how.compensation else {"stage": chunk.resume_at}),
    }
    if chunk.status is ChunkStatus.CANCELLED:  # its code tells only what is over
        removed += ", error_code"
    if chunk.status is ChunkStatus.DEAD:
        assignments += (
            ", replay_of = :gen, origin_gen = if_not_exists(origin_gen, :gen)"
        )
    if chunk.claimed_at and chunk.ended_at > chunk.claimed_at:
        # The next claim replaces the times of the last one.
        assignments += ", history = :history"
        end = str(chunk.status).lower()
        values["history"] = chunk.history_with(
            chunk.ended_by, chunk.ended_at, end, code=chunk.error_code
        )
    if how.patched is not None:
        assignments += (
            ", payload = :payload, payload_sha256 = :sha256, patched_in_gen = :next"
        )
        values |= {
            "payload": how.patched.payload,
            "sha256": how.patched.payload_sha256,
        }
    if how.restart is not None:
        assignments += ", stages = :stages"
        values |= {"stage": how.restart.stage, "stages": dict(how.restart.stages)}
        if how.restart.repeats:
            assignments += ", repeats_in_gen = :next"
    if how.schedule is None:
        removed += ", retry_at, redispatch_at"
    else:
        assignments += ", retry_at = :again, redispatch_at = :due"
        values |= {"again": iso(how.schedule.not_before), "due": iso(how.schedule.due)}
    return table.item_write(
        "Update",
        chunk.ref.pk,
        chunk.ref.sk,
        condition=f"{ENDED_AS_READ} AND {EARLIER} AND {NOT_SKIPPED}",
        update=assignments + removed,
        values=values,
    )
