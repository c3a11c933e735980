"""The records as they are read: a job, a chunk, and their states."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from piecework import keys, record

#: What a chunk's item counts.
COUNTS = frozenset(
    {"attempts", "fence", "renewals", "deferrals", "recoveries", "releases"}
)

MICROS = 1_000_000


class JobStatus(StrEnum):
    """The states of a job; `docs/states.md` draws the ways between them."""

    #: Its chunks are being written; none may be claimed to be all.
    SUBMITTING = "SUBMITTING"
    #: All chunks are written; workers are at it.
    RUNNING = "RUNNING"
    #: Every chunk has ended; the join runs and the certificate is written.
    FINALIZING = "FINALIZING"
    #: An operator takes chunks up again; the next generation begins.
    RESUMING = "RESUMING"
    #: An operator or its deadline stops it; chunks are let go, or wound back.
    CANCELLING = "CANCELLING"
    #: Ended: every chunk has a result.
    SUCCEEDED = "SUCCEEDED"
    #: Ended: some chunks have a result, the others are dead letters.
    PARTIAL = "PARTIAL"
    #: Ended: no chunk has a result, or the join is a dead letter.
    FAILED = "FAILED"
    #: Ended: somebody cancelled it; what had a result keeps it.
    CANCELLED = "CANCELLED"

    @property
    def ended(self) -> bool:
        """Whether nothing will happen any more unless somebody asks for it."""
        return self in {
            JobStatus.SUCCEEDED,
            JobStatus.PARTIAL,
            JobStatus.FAILED,
            JobStatus.CANCELLED,
        }


#: The states in which a job may still be cancelled, by whomever.
CANCELLABLE = frozenset({JobStatus.SUBMITTING, JobStatus.RUNNING, JobStatus.RESUMING})


class ChunkStatus(StrEnum):
    """The states of a chunk."""

    #: Never begun in this generation.
    PENDING = "PENDING"
    #: Claimed: somebody works on it, as long as the lease is alive.
    RUNNING = "RUNNING"
    #: Proceed before, to be taken up again at `retry_at`.
    WAITING = "WAITING"
    #: Ended well; its result counts.
    SUCCEEDED = "SUCCEEDED"
    #: Ended as a dead letter.
    DEAD = "DEAD"
    #: Ended because its job was cancelled.
    CANCELLED = "CANCELLED"

    @property
    def terminal(self) -> bool:
        """Whether only an operator can move it on."""
        return self in {ChunkStatus.SUCCEEDED, ChunkStatus.DEAD, ChunkStatus.CANCELLED}


STATUSES: Mapping[str, ChunkStatus] = {str(each): each for each in ChunkStatus}


@dataclass(frozen=True, slots=True)
class JobRef:
    """A job's name."""

    tenant: str
    job: str

    @property
    def pk(self) -> str:
        """The partition of the job."""
        return keys.job_pk(self.tenant, self.job)

    def chunk(self, number: int) -> ChunkRef:
        """Return the name of one of its chunks."""
        return ChunkRef(self.tenant, self.job, number)


@dataclass(frozen=True, slots=True)
class ChunkRef:
    """A chunk's name; the join is the chunk with the number `keys.JOIN_CHUNK`."""

    tenant: str
    job: str
    chunk: int

    @property
    def of(self) -> JobRef:
        """The job that it belongs to."""
        return JobRef(self.tenant, self.job)

    @property
    def pk(self) -> str:
        """The partition of the chunk."""
        return keys.chunk_pk(self.tenant, self.job, self.chunk)

    @property
    def sk(self) -> str:
        """The sort key of the chunk."""
        return keys.chunk_sk(self.chunk)

    @property
    def is_join(self) -> bool:
        """Whether it is the join."""
        return self.chunk == keys.JOIN_CHUNK

    def __str__(self) -> str:
        """Return what a person calls it."""
        return f"{self.job}/{'join' if self.is_join else self.chunk}"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk as its item says it stands."""

    ref: ChunkRef
    status: ChunkStatus
    gen: int
    fence: int
    item: Mapping[str, Any]

    @classmethod
    def read(cls, ref: ChunkRef, item: Mapping[str, Any]) -> Chunk:
        """Read an item.

        Raises:
            PermanentError: `runtime.record.unreadable`.
        """
        status, gen = STATUSES.get(str(item.get("status"))), item.get("gen")
        counts = [item[name] for name in COUNTS if name in item]
        odd = [n for n in counts if type(n) is not int or not 0 <= n <= record.MAX_INT]
        if status and not odd and type(gen) is int and 1 <= gen <= keys.MAX_GENERATION:
            return cls(ref, status, gen, item.get("fence", 0), item)
        what = f"The record of chunk {ref}"
        for name in COUNTS & item.keys():
            record.read_int(item, name, what)
        status = record.read_status(item, ChunkStatus, what)
        gen = record.read_int(item, "gen", what, 1, keys.MAX_GENERATION)
        return cls(ref, status, gen, item.get("fence", 0), item)

    @property
    def attempts(self) -> int:
        """How often the work on it has begun, hand-backs at a stop not counted."""
        return int(self.item.get("attempts", 0))

    @property
    def has_direction(self) -> bool:
        """Whether it goes on to its end whatever comes: back, or past the pivot."""
        return "direction" in self.item

    @property
    def compensate_requested(self) -> bool:
        """Whether a cancel asks for what it did to be undone."""
        return "compensate_requested" in self.item

    @property
    def renewal_mark(self) -> tuple[int, int]:
        """What changes as long as its holder lives."""
        return self.fence, int(self.item.get("renewals", 0))


@dataclass(frozen=True, slots=True)
class Job:
    """A job as its META item says it stands."""

    ref: JobRef
    status: JobStatus
    gen: int
    chunks: int
    pipeline: str
    item: Mapping[str, Any]

    @classmethod
    def read(cls, ref: JobRef, item: Mapping[str, Any]) -> Job:
        """Read an item.

        Raises:
            PermanentError: `runtime.record.unreadable`.
        """
        what = f"The record of job {ref.job}"
        return cls(
            ref,
            record.read_status(item, JobStatus, what),
            record.read_int(item, "gen", what, 1, keys.MAX_GENERATION),
            record.read_int(item, "chunks", what, 0, keys.MAX_CHUNK_NUMBER + 1),
            record.read_text(item, "pipeline", what),
            item,
        )

    @property
    def compensates_on_cancel(self) -> bool:
        """Whether its cancel undoes what the chunks have done."""
        return bool(self.item.get("cancel_compensates"))

    @property
    def cancelled_at(self) -> str:
        """When its last cancel was asked for."""
        return record.read_text(
            self.item, "cancelled_at", f"The record of {self.ref.job}"
        )

    @property
    def has_notify_hook(self) -> bool:
        """Whether its pipeline wants to be told of its end."""
        return bool(self.item.get("has_notify_hook"))

    @property
    def deadline(self) -> float | None:
        """When it is to be cancelled unless it has ended."""
        at = self.item.get("deadline_at")
        return None if at is None else moment(str(at))


def iso(moment: float) -> str:
    """Return a moment as text that sorts by time and reads without a calculator.

    Conditions compare these texts, so they all have one width and one zone.
    """
    whole = math.floor(moment)
    carried, micros = divmod(round((moment - whole) * MICROS), MICROS)
    return f"{_to_the_second(whole + carried)}.{micros // 1000:03d}Z"


@lru_cache(maxsize=64)
def _to_the_second(seconds: int) -> str:
    """Return a moment without its fraction: a worker asks for few of them, often."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def moment(text: str) -> float:
    """Return the moment that `iso` wrote, in seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()
