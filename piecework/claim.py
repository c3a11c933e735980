"""Whose chunk it is, decided from an item: pure, so that it can be read and tabled.

    the item says                                     the message
    nothing: there is no such chunk                   is quarantined
    it is of a newer version                          is left to newer workers
    ended, or a later life than the message's         is deleted
    somebody's lease is alive, or it waits for later  is hidden until then
    to be cancelled, and nobody has it                cancels it
    its attempts are spent, and nobody has it         winds it up
    nobody has it; somebody had                       claims it after them

A loser never deletes a living chunk's message, and its loss costs no attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from piecework.model import Chunk, ChunkRef, ChunkStatus, iso, moment
from piecework.schema import is_newer


@dataclass(frozen=True, slots=True)
class Claim:
    """A lease on a chunk.

    Attributes:
        token: Drawn anew for every claim; tells our own write from a rival's.
        chunk: The chunk as the claim left it.
        winding_up: Its attempts are spent: this claim only undoes and buries.
    """

    ref: ChunkRef
    gen: int
    fence: int
    token: str
    worker: str
    chunk: Chunk
    winding_up: bool = False

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self.chunk.attempts

    @property
    def recoveries(self) -> int:
        """How often the chunk was claimed only to be wound up; 0 for an attempt."""
        return int(self.chunk.item.get("recoveries", 0))

    @property
    def first(self) -> bool:
        """Whether nobody can have worked on the chunk before."""
        return self.fence == 1 and self.gen == 1


@dataclass(frozen=True, slots=True)
class Absent:
    """There is no such chunk."""


@dataclass(frozen=True, slots=True)
class Newer:
    """A later version has begun it, and goes on with it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """There is nothing left to do for this message."""

    chunk: Chunk


@dataclass(frozen=True, slots=True)
class Held:
    """Not now: ask again after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Cancelling:
    """It is to be cancelled, and nobody works on it."""

    chunk: Chunk


@dataclass(frozen=True, slots=True)
class Spent:
    """Its attempts are used up, and nobody works on it since that claim."""

    fence: int


@dataclass(frozen=True, slots=True)
class Free:
    """Nobody works on it since that claim; ours was meant to come after another."""

    fence: int


Refusal: TypeAlias = Absent | Newer | Ended | Held | Cancelling | Spent

#: Winding up a chunk may itself kill its worker: after so many times it is buried
#: with what it did left standing, for a person to see.
MAX_RECOVERIES = 3

#: Seconds to wait where the item gives no reason to: a write is on its way.
SOON = 1.0


def judge(  # noqa: PLR0911 -- one row of the table, one return
    ref: ChunkRef,
    item: Mapping[str, Any] | None,
    *,
    gen: int,
    now: float,
    skew: float,
    max_attempts: int,
) -> Refusal | Free:
    """Say why a claim was refused, from the item that refused it."""
    if item is None:
        return Absent()
    if is_newer(item):
        return Newer()
    chunk = Chunk.read(ref, item)
    if chunk.gen > gen or (chunk.gen == gen and chunk.status.terminal):
        return Ended(chunk)
    if chunk.gen < gen:
        return Held(SOON)
    # Compared as the claim does: as texts, to the millisecond.
    running = chunk.status is ChunkStatus.RUNNING
    if running and item["claim_expires_at"] >= iso(now - skew):
        return Held(max(0.0, moment(item["claim_expires_at"]) + skew - now))
    if "cancel_requested" in item and not chunk.on_its_way:
        return Cancelling(chunk)
    if "retry_at" in item and moment(item["retry_at"]) > now:
        return Held(moment(item["retry_at"]) - now)
    if chunk.attempts >= max_attempts:
        return Spent(chunk.fence)
    return Free(chunk.fence)
