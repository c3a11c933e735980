"""The interfaces of the engine; the stores and the in-memory run implement them.

A write that starts something is conditional on the claim. If the claim is lost, the
method raises `ClaimLostError`, and the worker that has the lease continues. A write of
a fact is not: a lost claim, too, may write an answer, or the end of an effect.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from piecework.errors import UsageError

if TYPE_CHECKING:
    from piecework.domain.effect import Effect
    from piecework.domain.happened import KnownEffect
    from piecework.domain.map_rows import MapRows, RowPipeline
    from piecework.domain.outcome import Asking, Batching, Deferred, Mapped, Sleeping
    from piecework.domain.question import QuestionRow
    from piecework.errors import ErrorEnvelope


class ClaimLostError(BaseException):
    """Another worker owns the chunk: write nothing, stop at once.

    Not an `Exception`, so that a stage's own `except Exception` cannot hide it.
    """


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """A cancel request, as the chunk's item stores it.

    Attributes:
        at: When the cancel was requested.
        compensate: Whether the chunk's completed stages are compensated first.
    """

    at: str
    compensate: bool

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> CancelRequest | None:
        """Read the request from a chunk's item; None: no cancel is requested."""
        if "cancel_requested_at" not in item:
            return None
        return cls(str(item["cancel_requested_at"]), "compensate_requested" in item)


class CancelRequestedError(BaseException):
    """A cancel is requested: stop at this stage boundary, or before the pivot."""


class WaitRequestedError(BaseException):
    """The chunk gives up its worker: its stage sleeps, asks, maps, or must not go on.

    Not an `Exception`, so that a stage's own `except Exception` cannot hide it.

    Attributes:
        wait: The outcome of the claim.
    """

    def __init__(self, wait: Sleeping | Batching | Asking | Mapped | Deferred) -> None:
        super().__init__(wait)
        self.wait = wait


class Checkpoints(Protocol):
    """A claimed chunk's progress through its stages."""

    @property
    def completed(self) -> Mapping[str, str]:
        """The JSON value of each completed stage, by stage name."""

    @property
    def failure(self) -> ErrorEnvelope | None:
        """The cause of the compensation; None while the chunk goes forward."""

    @property
    def compensated(self) -> Mapping[str, ErrorEnvelope | None]:
        """The compensated stages by name; the value is the failure, if it failed."""

    @property
    def compensable(self) -> Collection[str]:
        """The stages that completed in earlier claims and had a compensation."""

    @property
    def compensation_gen(self) -> int:
        """The generation in the keys of the calls of the compensation.

        It is an earlier one than the chunk's if a failed compensation runs again.
        """

    @property
    def reached_stage(self) -> str:
        """The stage that an earlier claim had started; empty on the first claim."""

    async def complete(self, index: int, value: str, following: str) -> None:
        """Store a stage's value and enter the following stage, in one write."""

    async def begin_compensation(self, failure: ErrorEnvelope, stage: str) -> None:
        """Record that this and all later claims of the chunk compensate."""

    async def record_compensation(
        self, stage: str, failure: ErrorEnvelope | None
    ) -> None:
        """Record that a stage was compensated, or the failure of its compensation."""


class Journal(Protocol):
    """The answers of a chunk's calls, and the moments at which its sleeps end."""

    def recall(self, key: str) -> str | None:
        """Return the JSON answer of an earlier call, or None."""

    async def record(
        self,
        key: str,
        value: str,
        site: str = "",
        digests: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Remember an answer; it may be written later, in a batch.

        `site`: what was called, as `site_text` names it; empty: a sleep. `digests`:
        those of the arguments, by their names.
        """


class Questions(Protocol):
    """The questions that the stages of a chunk have asked."""

    def recall(self, stage: str, question: str) -> QuestionRow | None:
        """Return a question as it is stored, or None."""

    async def close(self, row: QuestionRow) -> QuestionRow:
        """End an open question whose time is over; return it as it is then stored."""


class NoQuestions:
    """The questions of a chunk that has asked none, and cannot."""

    def recall(self, stage: str, question: str) -> QuestionRow | None:
        """Return None."""
        del stage, question
        return None

    async def close(self, row: QuestionRow) -> QuestionRow:
        """Return the question as it is."""
        return row


@dataclass(frozen=True, slots=True)
class RowFailure:
    """A row of a child job that has no result.

    Attributes:
        row: Its position among the rows, from 0.
        label: Its label.
        status: `DEAD` or `CANCELLED`.
        code: The code of its last error; empty: it has none.
        message: The message of that error.
    """

    row: int
    label: str
    status: str
    code: str
    message: str


class ChildResults(Protocol):
    """What the rows of a child job have become."""

    def results(self) -> AsyncIterator[StoredResult]:
        """Yield the results of the rows that have one, in order."""

    def failures(self) -> AsyncIterator[RowFailure]:
        """Yield the rows without a result, in order."""


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """The end of a child job.

    Attributes:
        status: Its status.
        succeeded: How many of its rows have a result.
    """

    status: str
    succeeded: int
    stored: ChildResults


class Children(Protocol):
    """The child jobs that the stages of a chunk start."""

    def pipeline_of(self, name: str) -> RowPipeline[Any]:
        """Return the pipeline of a child by its name.

        Raises:
            UsageError: `pipeline.map.unknown`.
        """

    async def find(self, job: str, stage: str, rows: MapRows) -> ChildEnd:
        """Return the end of a child; start it, and wait for it.

        Args:
            job: The id of the child.
            stage: The stage that asks.
            rows: What the child runs.

        Raises:
            WaitRequestedError: The chunk gives up its worker until the child has ended.
            PermanentError: `runtime.map.child_gone`, `runtime.map.over_budget`.
            UsageError: `pipeline.map.cycle`, `pipeline.map.too_deep`,
                `pipeline.map.unknown`.
        """


class NoChildren:
    """The children of code that no worker runs."""

    def pipeline_of(self, name: str) -> RowPipeline[Any]:
        """Refuse to start a job: see `find`."""
        raise cannot_map(name)

    async def find(self, job: str, stage: str, rows: MapRows) -> ChildEnd:
        """Refuse to start a job.

        Raises:
            UsageError: `pipeline.map.invalid`.
        """
        del job, stage
        raise cannot_map(rows.pipeline.name)


def cannot_map(pipeline: str) -> UsageError:
    """Return the error of code that no worker runs."""
    message = f"Code that no worker runs maps pipeline {pipeline!r}."
    return UsageError(message, code="pipeline.map.invalid")


class ResponseCache(Protocol):
    """The answers of pure calls that all jobs of a tenant share.

    A failure of the cache never fails a call: it counts as a miss, or is ignored.
    """

    async def recall(self, key: str) -> str | None:
        """Return the JSON answer of any job's call, or None."""

    async def keep(self, key: str, value: str, seconds: float) -> None:
        """Remember an answer for so many seconds."""


class NoResponseCache:
    """A cache that is always empty."""

    async def recall(self, key: str) -> str | None:
        """Return None."""
        del key
        return None

    async def keep(self, key: str, value: str, seconds: float) -> None:
        """Remember nothing."""
        del key, value, seconds


@dataclass(frozen=True, slots=True)
class Proceed:
    """An effect may be executed now, with this generation in its idempotency key.

    Attributes:
        seconds: The time since an earlier claim started it.
        is_counted: Whether that claim was answered, and has counted the call.
    """

    gen: int
    seconds: float = 0.0
    is_counted: bool = False


@dataclass(frozen=True, slots=True)
class AlreadyDone:
    """An effect was executed before; `value` is its answer as JSON.

    `is_counted`: whether its call is in the usage of a claim. If an operator knew the
    answer, it is not.
    """

    value: str
    is_counted: bool = True


@dataclass(frozen=True, slots=True)
class Unknown:
    """An effect may have happened and cannot be looked up; an operator decides."""


@dataclass(frozen=True, slots=True)
class Called:
    """What was called, as on a `KnownEffect`."""

    function: str
    arguments: str
    dependency: str = ""


class Ledger(Protocol):
    """The effects of a chunk: INTENT is written before each one, DONE after it."""

    async def begin(
        self,
        key: str,
        stage: str,
        effect: Effect,
        max_duration_s: float,
        called: Called | None = None,
    ) -> Proceed | AlreadyDone | Unknown:
        """Write the intent of an effect, or return the state of an earlier one.

        `max_duration_s`: seconds that one attempt may take. `called`: tells the call
        from others of its stage.
        """

    async def known_effects(self, stage: str) -> Sequence[KnownEffect]:
        """Return the effects of all stages; those of one stage have their answers."""

    def stages_with_effects(self) -> set[str]:
        """Return the stages with an effect that may have happened."""

    def may_have_happened(self, key: str) -> bool:
        """Return whether an effect may have happened."""

    def hold(self, key: str, value: str) -> None:
        """Remember an answer that is counted now, until `finish` has recorded it."""

    async def mark_counted(self, key: str) -> None:
        """Record that the call of an effect that an operator resolved is counted."""

    async def finish(self, key: str, value: str) -> None:
        """Record that an effect was executed, and its answer."""

    async def mark_refused(self, key: str, *, sent: bool = True) -> None:
        """Record that an effect did not happen: it was refused, or was not `sent`."""

    async def mark_unknown(self, key: str, schema: str) -> None:
        """Record that it is unknown whether an effect happened.

        `schema`: the JSON schema of its answer; empty: it is not known.
        """


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A chunk's result as it is stored: the value is JSON."""

    chunk: int
    label: str
    value: str


@dataclass(frozen=True, slots=True)
class MissingChunk:
    """A chunk without a result, with its status and error code.

    Attributes:
        compensation: The result of its compensation, as `CompensationResult`
            names it. Only with `COMPENSATED` and `NOT_NEEDED` no effect of its
            stages remains.
    """

    chunk: int
    label: str
    status: str
    error_code: str
    compensation: str = ""


class JobResults(Protocol):
    """The results that a join reads, and the artifacts that it writes."""

    @property
    def missing(self) -> Sequence[MissingChunk]:
        """The chunks without a result."""

    def results(self) -> AsyncIterator[StoredResult]:
        """Yield the results of all succeeded chunks, in chunk order."""

    async def write(self, name: str, content: bytes, media_type: str) -> str:
        """Save an artifact of the job; return its location."""
