"""What the engine asks of the world around it; adapters and the in-memory run answer.

Every write that these verbs stand for is conditional on the claim. When the claim
was lost the verb raises `ClaimLostError`: whoever holds the chunk now goes on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from piecework.ways import RUN

if TYPE_CHECKING:
    from piecework.context import Context
    from piecework.dependency import Effect
    from piecework.errors import ErrorEnvelope
    from piecework.pipeline import Stage


class ClaimLostError(BaseException):
    """The chunk belongs to somebody else by now: write nothing, stop at once.

    Not an `Exception`, so that a stage's own `except Exception` cannot hide it.
    """


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """A cancel, as the chunk's item tells its holder of it.

    Attributes:
        at: When it was asked for.
        compensate: Whether the chunk's completed stages are compensated first.
    """

    at: str
    compensate: bool

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> CancelRequest | None:
        """Read it off a chunk's item; None: nobody asks for the chunk to stop."""
        if "cancel_requested_at" not in item:
            return None
        return cls(str(item["cancel_requested_at"]), "compensate_requested" in item)


class CancelRequestedError(BaseException):
    """The chunk is to be cancelled: stop at this stage boundary and record it."""


class Checkpoints(Protocol):
    """A claimed chunk's progress through its stages."""

    @property
    def completed(self) -> Mapping[str, str]:
        """The JSON value of each stage whose checkpoint stands, by stage name."""

    @property
    def failure(self) -> ErrorEnvelope | None:
        """Why the chunk is on its way back; None while it goes forward."""

    @property
    def compensated(self) -> Mapping[str, ErrorEnvelope | None]:
        """The stages already compensated on the way back, and what failed there."""

    @property
    def reached_stage(self) -> str:
        """The stage that an earlier claim had begun; empty on the first claim."""

    async def complete(self, index: int, value: str, following: str) -> None:
        """Checkpoint a stage's value and enter the following stage, in one write."""

    async def begin_compensation(self, failure: ErrorEnvelope, stage: str) -> None:
        """Record that the chunk is compensating from now on, whoever works on it."""

    async def record_compensation(
        self, stage: str, failure: ErrorEnvelope | None
    ) -> None:
        """Record that a stage was compensated, or what its compensation died of."""


class StageRunner(Protocol):
    """Where a stage runs."""

    async def run(self, stage: Stage, ctx: Context[Any], variant: str = RUN) -> str:
        """Do a stage in one of its ways, or undo it; return its value as JSON."""


class Journal(Protocol):
    """The remembered results of pure calls."""

    def recall(self, key: str) -> str | None:
        """Return the JSON result of a call that was made before."""

    async def record(self, key: str, value: str) -> None:
        """Remember a result; it may be written later, together with others."""


class ResponseCache(Protocol):
    """Responses of pure calls that all jobs of a tenant share.

    Neither verb fails a call: what cannot be read is not there, and what cannot be
    written is let go.
    """

    async def recall(self, key: str) -> str | None:
        """Return the JSON response of a call that any job has made."""

    async def keep(self, key: str, value: str, seconds: float) -> None:
        """Remember a response for so long."""


class NoResponseCache:
    """A cache that remembers nothing."""

    async def recall(self, key: str) -> str | None:
        """Return nothing."""
        del key
        return None

    async def keep(self, key: str, value: str, seconds: float) -> None:
        """Remember nothing."""
        del key, value, seconds


@dataclass(frozen=True, slots=True)
class Proceed:
    """An effect may be carried out now, with this epoch in its idempotency key.

    Attributes:
        in_doubt: It was begun before, so many seconds ago, and may have happened.
    """

    epoch: int
    in_doubt: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class AlreadyDone:
    """An effect has been carried out before; this is what it answered."""

    value: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """An effect may have happened and cannot be asked after: a person decides."""


class Ledger(Protocol):
    """The effects of a chunk, each written ahead: INTENT before, DONE after."""

    async def begin(
        self, key: str, stage: str, effect: Effect, max_duration_s: float
    ) -> Proceed | AlreadyDone | Unknown:
        """Write the intent of an effect, or learn what became of an earlier one.

        `max_duration_s`: seconds that one attempt may take.
        """

    def stages_with_effects(self) -> set[str]:
        """Return the stages of which an effect stands, or may stand."""

    def may_have_happened(self, key: str) -> bool:
        """Say whether an effect stands, or may stand."""

    async def finish(self, key: str, value: str) -> None:
        """Record that an effect was carried out, and its answer."""

    async def mark_refused(self, key: str) -> None:
        """Record that an effect was plainly refused: it does not stand."""

    async def mark_unknown(self, key: str) -> None:
        """Record that nobody can tell whether an effect stands."""


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A chunk's result as it is stored."""

    chunk: int
    label: str
    value: str


@dataclass(frozen=True, slots=True)
class MissingChunk:
    """A chunk without a result, and why."""

    chunk: int
    label: str
    status: str
    error_code: str


class JobResults(Protocol):
    """What the join reads, and where it writes."""

    @property
    def missing(self) -> Sequence[MissingChunk]:
        """The chunks that have no result."""

    def results(self) -> AsyncIterator[StoredResult]:
        """Yield the results of all chunks that have one, in chunk order."""

    async def write(self, name: str, content: bytes, media_type: str) -> str:
        """Save an artifact of the job; return where it stands."""
