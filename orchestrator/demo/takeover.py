"""Whose chunks they were, and who has them now: read off the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from piecework.model import Chunk, ChunkStatus

#: The stages in which a chunk makes the calls that cost money.
PAYING = {"score", "analyse"}
#: Of those, the one with a checkpoint behind it.
CHECKPOINTED = "analyse"


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


def choose(
    chunks: Sequence[Chunk], pids: Sequence[int], rng: Random, *, pick: bool
) -> int | None:
    """Choose a process that is in the middle of a chunk.

    Args:
        chunks: All chunks of the job.
        pids: Who may be chosen.
        rng: Chooses among those that are alike.
        pick: Whether one with a checkpoint behind it must be found.
    """
    stages = {CHECKPOINTED} if pick else PAYING
    fit = [
        pid
        for pid in pids
        if any(held.stage in stages for held in in_hand(chunks, pid))
    ]
    return rng.choice(fit) if fit else None


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
