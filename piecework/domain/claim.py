"""Decide why a claim was refused, from the chunk's item alone.

    the item says                                        the worker
    there is no such chunk                               quarantines the message
    its schema is newer than this worker's               leaves it to newer workers
    it has ended, or its generation is later             deletes the message
    its generation is earlier than the message           hides the message for a moment
    its lease has expired                                releases the lease, claims it
    another lease is alive                               hides the message until then
    a cancel without compensation is pending             cancels the chunk
    a cancel with compensation is pending                sets the direction, claims it
    an earlier chunk of its order key has not settled    deletes the message
    its wait ends soon                                   hides the message until then
    its wait ends later                                  deletes the message
    its attempts are exhausted                           claims it for recovery
    an earlier worker had claimed it                     claims it after that fence

The first row that holds decides. From the pending cancels on, the chunk has no lease. A
cancel is pending until the chunk has a direction.
A refused worker spends no attempt. It deletes the message of an open chunk only if
another process sends the next one. That is the reconciler, or the process that unblocks
the chunk.
The function is pure, so a test can list all cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from piecework.domain.chunk import Chunk
from piecework.domain.moments import iso, moment
from piecework.domain.refs import ChunkRef
from piecework.domain.schema import is_newer
from piecework.domain.states import ChunkStatus


@dataclass(frozen=True, slots=True)
class Claim:
    """What the write of a claim returned: the fence, the token and the chunk.

    Attributes:
        token: Random for every claim; distinguishes its writes from another claim's.
        chunk: The chunk as the claim's write left it.
        is_recovery: The attempts are exhausted; this claim only compensates and
            dead-letters the chunk.
    """

    ref: ChunkRef
    gen: int
    fence: int
    token: str
    worker: str
    chunk: Chunk
    is_recovery: bool = False

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self.chunk.attempts

    @property
    def expires_at(self) -> int | None:
        """When DynamoDB may delete the rows that it writes; None: never."""
        return self.chunk.expires_at

    @property
    def code_version(self) -> str:
        """The code version of the chunk's pipeline in the claim's worker."""
        return self.chunk.code_version

    @property
    def recoveries(self) -> int:
        """The number of recovery claims of the chunk; 0 for an attempt."""
        return self.chunk.recoveries

    @property
    def is_suspect(self) -> bool:
        """Whether its stages may have killed, blocked or used up an earlier worker."""
        return self.chunk.takeovers > 0 or self.chunk.exhaustions > 0

    @property
    def is_first(self) -> bool:
        """Whether no earlier claim can have worked on the chunk."""
        return self.fence == 1 and self.gen == 1


@dataclass(frozen=True, slots=True)
class NotFound:
    """The table holds no such chunk."""


@dataclass(frozen=True, slots=True)
class SchemaTooNew:
    """A newer version of piecework wrote the chunk, and continues it."""


@dataclass(frozen=True, slots=True)
class AlreadyEnded:
    """The work that the message names has ended."""

    chunk: Chunk


@dataclass(frozen=True, slots=True)
class Busy:
    """Another lease is alive, or the chunk is behind its message: wait `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class LeaseExpired:
    """The chunk is RUNNING, and its lease ended longer ago than clocks may differ."""

    chunk: Chunk


@dataclass(frozen=True, slots=True)
class NotDue:
    """The chunk may not be claimed yet, but after `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Blocked:
    """An earlier chunk of its order key has not settled."""


@dataclass(frozen=True, slots=True)
class CancelPending:
    """A cancel of the chunk is pending, and no lease on it is alive."""

    chunk: Chunk


@dataclass(frozen=True, slots=True)
class AttemptsExhausted:
    """All attempts are spent, and no claim has followed the one with this fence."""

    fence: int


@dataclass(frozen=True, slots=True)
class FenceMismatch:
    """The chunk can be claimed, but after this fence, not after the expected one."""

    fence: int


Refusal: TypeAlias = (
    NotFound
    | SchemaTooNew
    | AlreadyEnded
    | Busy
    | LeaseExpired
    | NotDue
    | Blocked
    | CancelPending
    | AttemptsExhausted
)

#: A compensation may itself kill its worker. After so many recovery claims the chunk is
#: dead-lettered uncompensated, for an operator to repair.
MAX_RECOVERIES = 3

#: Seconds to wait where the item gives no time: another process is about to write.
RECHECK_S = 1.0


def explain_refusal(  # noqa: C901, PLR0911 -- one row of the table, one return
    ref: ChunkRef,
    item: Mapping[str, Any] | None,
    *,
    gen: int,
    now: float,
    skew: float,
    max_attempts: int,
) -> Refusal | FenceMismatch:
    """Return why a claim was refused, from the item that refused it.

    `gen`: the generation that the message names; `now`: seconds since 1970; `skew`:
    seconds by which the clocks of two workers may differ.

    Raises:
        PermanentError: `runtime.record.unreadable`.
    """
    if item is None:
        return NotFound()
    if is_newer(item):
        return SchemaTooNew()
    chunk = Chunk.read(ref, item)
    if chunk.gen > gen or (chunk.gen == gen and chunk.status.ended):
        return AlreadyEnded(chunk)
    if chunk.gen < gen:
        return Busy(RECHECK_S)
    if chunk.status is ChunkStatus.RUNNING:
        # Compared as the table compares: as texts, to the millisecond.
        if chunk.claim_expires_at < iso(now - skew):
            return LeaseExpired(chunk)
        return Busy(max(0.0, moment(chunk.claim_expires_at) + skew - now))
    if chunk.is_cancel_requested and not chunk.has_direction:
        return CancelPending(chunk)
    if chunk.blocked_by is not None:
        return Blocked()
    if chunk.retry_at and moment(chunk.retry_at) > now:
        return NotDue(moment(chunk.retry_at) - now)
    if chunk.attempts >= max_attempts:
        return AttemptsExhausted(chunk.fence)
    return FenceMismatch(chunk.fence)
