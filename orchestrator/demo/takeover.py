"""Whose chunks they were, and who has them now: read off the table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from piecework.model import Chunk, ChunkStatus

#: The stages in which a chunk makes the calls that cost money.
PAYING = frozenset({"score", "analyse"})
#: Of those, the one with twelve paid calls behind it.
CHECKPOINTED = frozenset({"analyse"})


@dataclass(frozen=True, slots=True)
class Held:
    """A chunk that a worker had claimed when it was killed."""

    chunk: int
    stage: str
    fence: int


@dataclass(frozen=True, slots=True)
class Takeover:
    """A chunk of the dead worker that another has claimed.

    Attributes:
        by: The owner as the table names it; empty when it had let go again.
        seconds: From the kill until the claim was seen.
    """

    held: Held
    by: str
    seconds: float


def owner_pid(chunk: Chunk) -> int:
    """Return the pid of a running chunk's owner; 0 for none."""
    if chunk.status is not ChunkStatus.RUNNING:
        return 0
    pid = str(chunk.item.get("claimed_by", "")).rpartition("-")[2]
    return int(pid) if pid.isdecimal() else 0


def in_hand(chunks: Iterable[Chunk], pid: int) -> list[Held]:
    """Return the chunks that the table says are that process's."""
    return [
        Held(chunk.ref.chunk, str(chunk.item["stage"]), chunk.fence)
        for chunk in chunks
        if owner_pid(chunk) == pid
    ]


def in_mid_chunk(
    chunks: Sequence[Chunk], pids: Iterable[int], stages: Collection[str] = PAYING
) -> list[int]:
    """Return the processes that have a chunk in hand in one of the stages."""
    return [pid for pid in pids if any(h.stage in stages for h in in_hand(chunks, pid))]


def taken_over(
    waiting: Iterable[Held], chunks: Sequence[Chunk], seconds: float
) -> list[Takeover]:
    """Return which of the chunks another worker has claimed by now."""
    now = {chunk.ref.chunk: chunk for chunk in chunks}
    return [
        Takeover(held, str(now[held.chunk].item.get("claimed_by", "")), seconds)
        for held in waiting
        if now[held.chunk].fence > held.fence
    ]
