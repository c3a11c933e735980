"""What a provider's batches look like from the collector: plan, create, find, read.

A batch is created once for each digest of its rows, as far as its provider can tell:
`find` is asked before a creation is repeated. Nothing here is stored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from piecework.errors import StageError
from piecework.llm.request import ModelAnswer, ModelRequest


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One request of a batch.

    Attributes:
        custom_id: The name of the row in its batch: 1 to 64 of `a-z A-Z 0-9 _ -`.
        body: The provider's request, as the direct adapter would send it; plain JSON.
    """

    custom_id: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How large a batch may be.

    Attributes:
        most_rows, least_rows: Rows of a batch.
        most_bytes: Bytes of the whole batch, as `size_of` counts its rows.
        most_row_bytes: Bytes of one row; a larger one goes direct.
        finds_exactly: Whether `find` returns only batches of that digest. Without, each
            batch found may be another's, and only the ids of its results tell.
    """

    most_rows: int
    most_bytes: int
    most_row_bytes: int
    least_rows: int = 1
    finds_exactly: bool = True


class BatchState(StrEnum):
    """Where a batch is. All but the first are ends."""

    IN_PROGRESS = "IN_PROGRESS"
    #: Each row has an outcome, or none.
    ENDED = "ENDED"
    #: Refused whole, at validation: no row was answered or billed.
    FAILED = "FAILED"
    #: Cancelled: what it had answered is in its outcomes.
    CANCELLED = "CANCELLED"
    #: Out of time: what it had answered is in its outcomes.
    EXPIRED = "EXPIRED"


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """A batch, as its provider tells it.

    Attributes:
        id: The provider's id.
        rows, answered, failed: Rows in all, and how many of them have ended how. A
            provider may count them only at the end, and `rows` not before it validated.
        created_at, ended_at: Seconds since 1970; None: it has not ended.
        refused: The rows that a validation named, by `custom_id`, each with its error.
        reason: Why the whole batch failed; None: it did not, or its rows say it.
    """

    id: str
    state: BatchState
    rows: int
    answered: int
    failed: int
    created_at: float
    ended_at: float | None
    refused: Mapping[str, StageError] = field(default_factory=dict)
    reason: StageError | None = None


@dataclass(frozen=True, slots=True)
class RowAnswered:
    """A row with its answer, as a direct request has it, of the tier `batch`.

    Whether the model finished is not judged here: `ModelAnswer.failure` does.
    """

    custom_id: str
    answer: ModelAnswer


@dataclass(frozen=True, slots=True)
class RowFailed:
    """A row with its error, as a direct request has it.

    The error has the answer's tokens in its fact `answer`, if they were billed.
    """

    custom_id: str
    error: StageError


@dataclass(frozen=True, slots=True)
class RowExpired:
    """A row that its batch has not asked: it ran out of time, or was cancelled."""

    custom_id: str


@dataclass(frozen=True, slots=True)
class RowUnreadable:
    """A line of the output that cannot be read as the outcome of a row.

    Attributes:
        line: Its first bytes, at most `lines.KEPT`.
        why: Why it cannot be read; quotes nothing of it.
    """

    line: bytes
    why: str


RowOutcome: TypeAlias = RowAnswered | RowFailed | RowExpired | RowUnreadable


class BatchProvider(Protocol):
    """The batches of one provider.

    Each method raises what the provider's client raises, without retries of its own:
    `classify(error, layer="llm")` names it, as that of a direct request.

    Attributes:
        provider: Its name, as in the keys of calls.
        endpoint: What its rows ask; the rows of a batch have one endpoint.
    """

    @property
    def provider(self) -> str:
        """Return the provider's name."""

    @property
    def endpoint(self) -> str:
        """Return the address that its rows ask."""

    @property
    def limits(self) -> BatchLimits:
        """Return how large a batch may be."""

    def row(self, custom_id: str, request: ModelRequest) -> BatchRow:
        """Return the row of a request, which has model and options.

        Raises:
            UsageError: `pipeline.declaration.invalid`: the options have what a row
                cannot say, such as a header.
        """

    def size_of(self, row: BatchRow) -> int:
        """Return how many bytes a row adds to its batch."""

    async def create(self, rows: Iterable[BatchRow], digest: str) -> str:
        """Create a batch, and return its id; `rows` is read once, in a thread.

        `digest`: names the batch where the provider takes a name: 1 to 64 letters.
        """

    async def find(
        self, digest: str, planned_at: float, rows: int
    ) -> list[BatchStatus]:
        """Return the batches that a creation of this digest may have made.

        The latest first. `planned_at`: none that is older, less a minute for clocks.
        """

    async def status(self, batch_id: str) -> BatchStatus:
        """Return where a batch is."""

    def outcomes(self, batch_id: str) -> AsyncIterator[RowOutcome]:
        """Yield each outcome of a batch that has ended, in any order, with repeats.

        Memory does not grow with the batch. Nothing is held back: a row may come twice,
        or be of another batch.

        Raises:
            PermanentError: `llm.batch.results_gone`: the provider has deleted them.
        """

    async def cancel(self, batch_id: str) -> None:
        """Ask for the end of a batch; one that has ended is left as it is."""
