"""The names of jobs and chunks."""

from __future__ import annotations

from dataclasses import dataclass

from piecework.domain import keys


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
