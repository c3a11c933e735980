"""What a program reads of a job: its state, and the end of each chunk."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from piecework.domain.keys import similar_names
from piecework.domain.moments import iso
from piecework.domain.states import JobStatus
from piecework.resilience.budget import on_day
from piecework.store.breakers import FleetRecord
from piecework.store.budgets import read_budget
from piecework.store.limits import NAMES, read_quota
from piecework_orchestrator.reading.job_documents import Document, budget_document

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """A chunk with its result.

    Attributes:
        code_version: The code that made the result; empty: its worker could not tell.
    """

    chunk: int
    label: str
    value: R
    code_version: str = field(default="", repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ChunkError:
    """Why a chunk has no result.

    Attributes:
        message: The message of the dead letter; empty for a cancelled chunk.
        stage: The stage in which the chunk died; empty for a cancelled chunk.
    """

    code: str
    message: str = ""
    stage: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """A chunk that ended without a result.

    Attributes:
        status: DEAD or CANCELLED.
        code_version: The code of its last claim; empty: it had none, or its worker
            could not tell.
    """

    chunk: int
    label: str
    status: str
    error: ChunkError
    code_version: str = field(default="", repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The facts on a job's own item at one moment.

    Attributes:
        gen: The generation; a redrive or a retry starts the next one.
        document: The fields that the command line writes with `-o json`.
    """

    id: str
    pipeline: str
    status: JobStatus
    chunks: int
    gen: int
    document: Document = field(repr=False)

    @property
    def ended(self) -> bool:
        """Whether no chunk is open any more."""
        return not self.status.is_open

    @property
    def succeeded(self) -> bool:
        """Whether every chunk has a result, and the join has run."""
        return self.status is JobStatus.SUCCEEDED

    @classmethod
    def read(cls, document: Document) -> Self:
        """Return the facts of a document."""
        return cls(
            document["job"],
            document["pipeline"],
            JobStatus(document["status"]),
            document["chunks"],
            document["gen"],
            document,
        )


@dataclass(frozen=True, slots=True, repr=False)
class JobView(JobFacts):
    """The state of a job at one moment, with its chunks."""

    def __repr__(self) -> str:
        """Return what a person wants to see first."""
        names = ("id", "pipeline", "gen", "counts", "dead_letters")
        facts = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"JobView({facts}, status={str(self.status)!r})"

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of chunks by status."""
        counts: Mapping[str, int] = self.document["counts"]
        return counts

    @property
    def dead_letters(self) -> int:
        """The number of open dead letters."""
        return int(self.document["dead_letters"])


def tenant_budget_document(tenant: str, row: Mapping[str, Any], now: float) -> Document:
    """Return the daily budget of a tenant: cap, spent and reserved, of this day."""
    budget = on_day(read_budget(dict(row)), iso(now)[:10])
    return {
        "tenant": tenant,
        "day": budget.day,
        **budget_document(budget, now),
        "set_by": row.get("set_by", ""),
        "set_at": row.get("set_at", ""),
    }


def known_dependency(
    dependency: str, before: FleetRecord, called: Collection[str]
) -> Document:
    """Return whether anything has used a dependency, and similar names.

    A name that nothing has used may be a typing error, or wait for its first call.
    `called`: the dependencies that workers have called.
    """
    limited = {name for name, quota in before.quotas.items() if quota.is_used}
    used = {*before.breakers, *limited, *called}
    return {
        "known": dependency in used,
        "similar": similar_names(dependency, sorted(used)),
    }


def limits_document(dependency: str, row: Mapping[str, Any]) -> Document:
    """Return the limits in force, those of the code, and who changed them when."""
    quota = read_quota(dict(row))
    return {
        "dependency": dependency,
        **{name: getattr(quota.limits, name) for name in NAMES},
        **{f"declared_{name}": getattr(quota.declared, name) for name in NAMES},
        "paused": quota.paused,
        "set_by": row.get("set_by", "") if quota.operator else "",
        "set_at": row.get("set_at", "") if quota.operator else "",
    }
