"""Find claimed chunks and takeovers in the rows of the table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from piecework.model import Chunk, ChunkStatus

#: The stages in which a chunk makes the calls that cost money.
PAID_STAGES = frozenset({"score", "analyse"})
#: The paid stage that runs after twelve paid calls.
CHECKPOINTED_STAGES = frozenset({"analyse"})


@dataclass(frozen=True, slots=True)
class ClaimedChunk:
    """A chunk that a worker had claimed at the kill."""

    chunk: int
    stage: str
    fence: int


@dataclass(frozen=True, slots=True)
class Takeover:
    """A chunk of the killed worker that another worker has claimed.

    Attributes:
        by: The owner in the table; empty if it has released the chunk again.
        seconds: Seconds from the kill until the claim was observed.
    """

    claimed: ClaimedChunk
    by: str
    seconds: float


def owner_pid(chunk: Chunk) -> int:
    """Return the pid of a running chunk's owner, or 0."""
    if chunk.status is not ChunkStatus.RUNNING:
        return 0
    pid = str(chunk.item.get("claimed_by", "")).rpartition("-")[2]
    return int(pid) if pid.isdecimal() else 0


def claimed_chunks(chunks: Iterable[Chunk], pid: int) -> list[ClaimedChunk]:
    """Return the chunks that a process has claimed, by the table."""
    return [
        ClaimedChunk(chunk.ref.chunk, str(chunk.item["stage"]), chunk.fence)
        for chunk in chunks
        if owner_pid(chunk) == pid
    ]


def workers_in_stages(
    chunks: Sequence[Chunk], pids: Iterable[int], stages: Collection[str] = PAID_STAGES
) -> list[int]:
    """Return the processes that run a chunk in one of the stages."""
    return [
        pid
        for pid in pids
        if any(h.stage in stages for h in claimed_chunks(chunks, pid))
    ]


def find_takeovers(
    waiting: Iterable[ClaimedChunk], chunks: Sequence[Chunk], seconds: float
) -> list[Takeover]:
    """Return the chunks that another worker has claimed."""
    now = {chunk.ref.chunk: chunk for chunk in chunks}
    return [
        Takeover(claimed, str(now[claimed.chunk].item.get("claimed_by", "")), seconds)
        for claimed in waiting
        if now[claimed.chunk].fence > claimed.fence
    ]
