"""Sort the chunks of a job for its page: those that need a person, those at work.

A chunk needs a person if no worker can mend it: it is dead and its dead letter is open,
newer code has stopped it, or its stage asks a question. A chunk that runs, or that
waits for a time, a dependency or a worker, goes on by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from piecework.domain.chunk import Chunk
from piecework.domain.outcome import ANSWER
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.states import ChunkStatus
from piecework.explain.changed import is_stopped
from piecework.explain.situation import EFFECT_IN_DOUBT
from piecework.explain.waiting import wait_of
from piecework_orchestrator.operate.effects import may_have_left
from piecework_orchestrator.reading.job_documents import Document

#: Chunks in the list of those that need a person, and of those at work, of each kind.
MAX_LISTED: Final = 50
#: Chunks whose effects in doubt are read: one request each.
MAX_DOUBTFUL: Final = 10
#: The kinds of chunks in the order of the lists.
DEAD, STOPPED, ASKS, RUNS, WAITS = "dead", "stopped", "asks", "runs", "waits"
FOR_PEOPLE: Final = (DEAD, STOPPED, ASKS)
AT_WORK: Final = (RUNS, WAITS)


def kind_of(chunk: Chunk, closed: Collection[int]) -> str:
    """Return the kind of a chunk; empty: it is in no list.

    `closed`: the dead chunks whose dead letter an operator has closed.
    """
    if chunk.status is ChunkStatus.DEAD:
        return "" if chunk.ref.chunk in closed else DEAD
    if is_stopped(chunk):
        return STOPPED
    if chunk.status is ChunkStatus.WAITING:
        return ASKS if chunk.blocked_on == ANSWER else WAITS
    return RUNS if chunk.status is ChunkStatus.RUNNING else ""


def may_be_in_doubt(chunk: Chunk) -> bool:
    """Return whether the ledger of an ended chunk may have an effect in doubt.

    A cancel without a worker counts none, although a lost claim may have left one.
    """
    counted = chunk.effects_in_doubt > 0 or bool(chunk.lost_fences)
    return may_have_left(chunk) and counted


@dataclass(slots=True)
class Lists:
    """The lists of a job's page.

    Attributes:
        now: The time of the read, epoch seconds.
        closed: The dead chunks whose dead letter an operator has closed.
        stopped: The order keys that a dead letter stops.
        by_kind: The first chunks of each kind, as documents.
        doubtful: The first chunks that may have left an effect in doubt.
        more_doubtful: How many others there are.
    """

    now: float
    closed: Collection[int] = frozenset()
    stopped: Collection[str] = frozenset()
    by_kind: dict[str, list[Document]] = field(
        default_factory=lambda: {
            kind: [] for kind in (DEAD, STOPPED, ASKS, RUNS, WAITS)
        }
    )
    doubtful: list[ChunkRef] = field(default_factory=list)
    more_doubtful: int = 0

    def add(self, chunk: Chunk) -> None:
        """Add a chunk to the list that it belongs to, if that has room."""
        if may_be_in_doubt(chunk):
            self._doubt(chunk.ref)
        listed = self.by_kind.get(kind_of(chunk, self.closed))
        if listed is not None and len(listed) < MAX_LISTED:
            wait = wait_of(chunk, self.now, self.stopped)
            listed.append(chunk.facts | {"wait": wait.text if wait else ""})

    def add_letters(self, of: JobRef, codes: Mapping[int, str]) -> None:
        """Add dead chunks that were not read, of which only the error code is known."""
        for number, code in sorted(codes.items()):
            if code == EFFECT_IN_DOUBT:
                self._doubt(of.chunk(number))
            if number not in self.closed and len(self.by_kind[DEAD]) < MAX_LISTED:
                row = {"chunk": number, "status": str(ChunkStatus.DEAD), "wait": ""}
                self.by_kind[DEAD].append(row | {"error_code": code})

    def add_join(self, join: Chunk | None) -> None:
        """Add the join of a job, if it was read; a join at work is in the findings."""
        if join is not None and join.status.ended:
            self.add(join)

    def _doubt(self, ref: ChunkRef) -> None:
        if ref.is_join or len(self.doubtful) < MAX_DOUBTFUL:
            self.doubtful.append(ref)
        else:
            self.more_doubtful += 1

    @property
    def for_people(self) -> list[Document]:
        """The chunks that need a person."""
        return [row for kind in FOR_PEOPLE for row in self.by_kind[kind]]

    @property
    def at_work(self) -> list[Document]:
        """The chunks that run or wait, and go on by themselves."""
        return [row for kind in AT_WORK for row in self.by_kind[kind]]
