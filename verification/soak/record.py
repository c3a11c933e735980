"""What the judges read: changes of the tables, effects, deletions, and logs.

All four carry the wall clock of one machine, so that they can be laid side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from piecework.domain import keys

Item: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """A write to the checkpoint table, as its stream tells it, in its order.

    Attributes:
        at: When, in seconds since 1970, cut to the millisecond.
        new: The item as it was left; None when it was deleted.
    """

    seq: int
    at: float
    pk: str
    sk: str
    new: Item | None

    @property
    def job(self) -> str:
        """The job that the item belongs to; empty for a list of jobs."""
        return job_of(self.pk)

    @property
    def chunk(self) -> int | None:
        """The number of the chunk that the item is of; None for the job's own."""
        if self.sk == "JOIN":
            return keys.JOIN_CHUNK
        kind, _, rest = self.sk.partition("#")
        if kind not in {"CHUNK", "RESULT", "WORK"}:
            return None
        name = rest.partition("#")[0]
        return keys.JOIN_CHUNK if name == "JOIN" else int(name)

    @property
    def kind(self) -> str:
        """What the item is: META, CHUNK, STAGE, EFFECT and so on."""
        first, _, rest = self.sk.partition("#")
        if first == "JOIN":
            return "CHUNK"
        return rest.split("#")[1] if first == "WORK" else first


def job_of(pk: str) -> str:
    """Return the job whose rows a partition key is of; empty for a list of jobs."""
    parts = pk.split("#")
    return parts[3] if parts[0] == "T" and parts[2:3] == ["J"] else ""


@dataclass(frozen=True, slots=True)
class Throttling:
    """A time in which AWS refused requests for a partition.

    Attributes:
        until: When it ended; a request after that went through.
    """

    at: float
    until: float
    pk: str

    @property
    def job(self) -> str:
        """The job whose rows these are; empty for a list of jobs."""
        return job_of(self.pk)


@dataclass(frozen=True, slots=True)
class Effect:
    """A line of the outside ledger.

    Attributes:
        what: `call` (paid, nothing left behind), `done` or `undone` (an effect).
        op: What was asked for, such as `reserve`.
        key: The idempotency key that came with it.
    """

    at: float
    what: str
    op: str
    job: str
    chunk: int
    key: str


@dataclass(frozen=True, slots=True)
class Ack:
    """A message of the work queue that a worker asked SQS to delete."""

    at: float
    job: str
    chunk: int
    gen: int


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A line of a worker's log."""

    at: float
    worker: str
    event: str
    fields: Mapping[str, Any] = field(default_factory=dict)


Record: TypeAlias = Change | Effect | Ack | LogEvent


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings that the history is held to.

    Attributes:
        stages: The stages of each pipeline in order, and the position of its pivot.
        naive: The effects that the provider repeats if asked twice.
        poison: The chunks that kill the process of their stage, by tenant and job.
    """

    lease_s: float
    clock_skew_s: float
    max_attempts: int
    max_releases: int
    max_takeovers: int
    stages: Mapping[str, tuple[tuple[str, ...], int]]
    tenant: str = "default"
    naive: frozenset[str] = frozenset()
    poison: frozenset[tuple[str, str, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that was broken: which rule, which invariant, where, when."""

    rule: str
    invariant: str
    where: str
    at: float
    said: str

    def __str__(self) -> str:
        """Return a line for a person."""
        return (
            f"{self.invariant} {self.rule}: {self.where} at {self.at:.3f}: {self.said}"
        )
