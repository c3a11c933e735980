"""The states of jobs and of chunks; `docs/states.md` draws the transitions."""

from __future__ import annotations

from enum import StrEnum


class JobStatus(StrEnum):
    """The states of a job."""

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
