"""The records of jobs and chunks as they are read, and their states."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from piecework.domain import keys, records
from piecework.domain.chunk_row import ChunkRow
from piecework.domain.job_row import JobRow

#: The counters of a chunk's item.
COUNTS = frozenset(
    {
        "attempts",
        "breaker_deferrals",
        "budget_deferrals",
        "deferrals",
        "early_deferrals",
        "exhaustions",
        "failed_probes",
        "fence",
        "outages",
        "recoveries",
        "releases",
        "renewals",
        "stage_deferrals",
        "takeovers",
    }
)

MICROS = 1_000_000
#: The `cancel_code` of a job that its deadline cancelled.
DEADLINE_CODE = "job.deadline.passed"


class JobStatus(StrEnum):
    """The states of a job; `docs/states.md` draws the transitions."""

    #: The chunks are being written; the list of chunks is not complete yet.
    SUBMITTING = "SUBMITTING"
    #: All chunks are written; workers process them.
    RUNNING = "RUNNING"
    #: It is paused: no call starts until it is resumed. Its deadline goes on.
    PAUSED = "PAUSED"
    #: Every chunk has ended; the join runs and the certificate is written.
    FINALIZING = "FINALIZING"
    #: An operator reopens chunks; the next generation begins.
    REOPENING = "REOPENING"
    #: An operator or the deadline stops it; chunks end, or are compensated.
    CANCELLING = "CANCELLING"
    #: Ended: every chunk has a result.
    SUCCEEDED = "SUCCEEDED"
    #: Ended: some chunks have a result, the others are dead letters.
    PARTIAL = "PARTIAL"
    #: Ended: no chunk has a result, or the join is a dead letter.
    FAILED = "FAILED"
    #: Ended: it was cancelled; chunks keep the results that they have.
    CANCELLED = "CANCELLED"
    #: It is being deleted: its rows and objects go; any process may continue.
    DELETING = "DELETING"
    #: It was deleted. Its own row stays as a tombstone.
    DELETED = "DELETED"

    @property
    def ended(self) -> bool:
        """Whether the job does nothing more without a request of an operator."""
        return self in {
            JobStatus.SUCCEEDED,
            JobStatus.PARTIAL,
            JobStatus.FAILED,
            JobStatus.CANCELLED,
        }

    @property
    def gone(self) -> bool:
        """Whether the data of the job is deleted, or is being deleted."""
        return self in {JobStatus.DELETING, JobStatus.DELETED}

    @property
    def is_open(self) -> bool:
        """Whether a chunk or the join may still run in this generation."""
        return not (self.ended or self.gone)


#: The states in which a job can be cancelled.
CANCELLABLE = frozenset(
    {JobStatus.SUBMITTING, JobStatus.RUNNING, JobStatus.PAUSED, JobStatus.REOPENING}
)


class ChunkStatus(StrEnum):
    """The states of a chunk."""

    #: Not started in this generation.
    PENDING = "PENDING"
    #: A worker has claimed it, and works on it while the lease is alive.
    RUNNING = "RUNNING"
    #: Started before; to be dispatched again at `retry_at`.
    WAITING = "WAITING"
    #: Ended with a result.
    SUCCEEDED = "SUCCEEDED"
    #: Ended as a dead letter.
    DEAD = "DEAD"
    #: Ended because its job was cancelled.
    CANCELLED = "CANCELLED"

    @property
    def ended(self) -> bool:
        """Whether only an operator can change the state."""
        return self in {ChunkStatus.SUCCEEDED, ChunkStatus.DEAD, ChunkStatus.CANCELLED}


STATUSES: Mapping[str, ChunkStatus] = {str(each): each for each in ChunkStatus}


@dataclass(frozen=True, slots=True)
class JobRef:
    """The name of a job."""

    tenant: str
    job: str

    @property
    def pk(self) -> str:
        """The partition of the job."""
        return keys.job_pk(self.tenant, self.job)

    def chunk(self, number: int) -> ChunkRef:
        """Return the name of a chunk of the job."""
        return ChunkRef(self.tenant, self.job, number)


@dataclass(frozen=True, slots=True)
class ChunkRef:
    """The name of a chunk; the join has the number `keys.JOIN_CHUNK`."""

    tenant: str
    job: str
    chunk: int

    @property
    def of(self) -> JobRef:
        """The job of the chunk."""
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

    @property
    def name(self) -> str:
        """The number, or `join`, as commands take it."""
        return "join" if self.is_join else str(self.chunk)

    def __str__(self) -> str:
        """Return the name for people: job/number."""
        return f"{self.job}/{self.name}"


@dataclass(frozen=True, slots=True)
class Chunk(ChunkRow):
    """A chunk, read from its item."""

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
        odd = [n for n in counts if type(n) is not int or not 0 <= n <= records.MAX_INT]
        if status and not odd and type(gen) is int and 1 <= gen <= keys.MAX_GENERATION:
            return cls(ref, status, gen, item.get("fence", 0), item)
        what = f"The record of chunk {ref}"
        for name in COUNTS & item.keys():
            records.read_int(item, name, what)
        status = records.read_status(item, ChunkStatus, what)
        gen = records.read_int(item, "gen", what, 1, keys.MAX_GENERATION)
        return cls(ref, status, gen, item.get("fence", 0), item)

    def to_reopen(self) -> Chunk:
        """Return it with only the attributes that a reopening reads, to save memory."""
        read = {"stage", "resume_at", "blocked_by", "error_code", "history", "attempts"}
        read |= {"claimed_at", "ended_at", "ended_by", "gen"}
        names = read & self.item.keys()
        return replace(self, item={name: self.item[name] for name in names})


@dataclass(frozen=True, slots=True)
class Job(JobRow):
    """A job, read from its META item."""

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
            records.read_status(item, JobStatus, what),
            records.read_int(item, "gen", what, 1, keys.MAX_GENERATION),
            records.read_int(item, "chunks", what, 0, keys.MAX_CHUNK_NUMBER + 1),
            records.read_text(item, "pipeline", what),
            item,
        )

    @property
    def is_expiring(self) -> bool:
        """Whether its deadline cancels it now."""
        cancelling = self.status is JobStatus.CANCELLING
        return cancelling and self.cancel_code == DEADLINE_CODE

    @property
    def deadline(self) -> float | None:
        """Its deadline in seconds since 1970; None: it has none."""
        return moment(self.deadline_at) if self.deadline_at else None


#: The end of the year 9999: no later moment has a text. And the longest wait.
LAST_MOMENT = 253_402_300_799.0
LONGEST_WAIT_S = LAST_MOMENT / 2


def iso(moment: float) -> str:
    """Return seconds since 1970 as ISO 8601 text in UTC, to the millisecond.

    Conditions compare these texts, so all have the same width and zone.
    """
    whole = math.floor(moment)
    carried, micros = divmod(round((moment - whole) * MICROS), MICROS)
    return f"{_to_the_second(whole + carried)}.{micros // 1000:03d}Z"


@lru_cache(maxsize=64)
def _to_the_second(seconds: int) -> str:
    """Return a moment without its fraction; cached, because values repeat often."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def moment(text: str) -> float:
    """Return the moment that `iso` wrote, in seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()


class Effect(StrEnum):
    """What a call changes outside Piecework; declared once for each dependency.

    The kind decides what happens if a worker dies between a call and its record. At
    that moment the worker that takes over cannot know whether the call took place.
    """

    #: Nothing. The result is stored, and the call may be made again at its price.
    PURE = "pure"
    #: An effect whose provider honours the idempotency key: the call is repeated.
    PROVIDER_IDEMPOTENT = "provider_idempotent"
    #: An effect that is looked up by our key before the call is made again.
    LOOKUP = "lookup"
    #: An effect that can be neither repeated nor looked up: an operator decides.
    NON_IDEMPOTENT = "non_idempotent"
