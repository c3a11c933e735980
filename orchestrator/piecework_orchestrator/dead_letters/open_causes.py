"""Group the open dead letters of a tenant by their cause, in few requests.

Each open dead letter has a small mark in a list by time. So the newest ten thousand
take a handful of requests, and only some of the letters themselves are read: the newest
of each cause, which name it.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from piecework.domain.dead_letter import DeadLetterRow, OpenLetterRow
from piecework.domain.refs import ChunkRef
from piecework.runtime import Runtime
from piecework_orchestrator.dead_letters.letters import group_document
from piecework_orchestrator.reading.job_documents import Document, dead_letters_of

#: The newest marks that are read: three requests or four. And causes that are named.
MOST_MARKS: Final = 10_000
MOST_CAUSES: Final = 50
#: Letters of a cause that are read: the newest one may be damaged, or closed meanwhile.
TRIED: Final = 3


@dataclass(slots=True)
class Marked:
    """The marks of one cause, the newest first.

    Attributes:
        last, first: When the newest and the oldest of them died, ISO 8601.
        newest: Chunk and generation of the newest ones.
    """

    count: int = 0
    last: str = ""
    first: str = ""
    jobs: set[str] = field(default_factory=set)
    pipelines: set[str] = field(default_factory=set)
    newest: list[tuple[ChunkRef, int]] = field(default_factory=list)

    def add(self, ref: ChunkRef, gen: int, mark: OpenLetterRow, most: int) -> None:
        """Add a mark, which is older than those before."""
        self.count += 1
        self.first = mark.dead_lettered_at
        self.last = self.last or self.first
        self.jobs.add(ref.job)
        self.pipelines.add(mark.pipeline)
        if len(self.newest) < most:
            self.newest.append((ref, gen))


@dataclass(frozen=True, slots=True)
class OpenCauses:
    """The causes of the open dead letters, the most frequent first.

    Attributes:
        number: The open dead letters that were counted.
        complete: Whether these are all; else the newest ones.
        more: Causes that are counted and not named.
        rows: The letters that were read, the newest first.
        damaged: The chunks of those that cannot be read.
    """

    causes: list[Document]
    number: int
    complete: bool
    more: int
    rows: list[DeadLetterRow]
    damaged: list[ChunkRef]


async def read_open_causes(
    rt: Runtime, fingerprint: str = "", tried: int = TRIED
) -> OpenCauses:
    """Return the causes of a tenant's open dead letters; at most eight requests.

    `fingerprint`: only this cause; `tried`: letters of each that are read.
    """
    by_cause, number, complete = await read_marks(rt, fingerprint, tried)
    found = sorted(by_cause.items(), key=lambda one: (-one[1].count, one[0]))
    named = found[:MOST_CAUSES]
    damaged: list[DeadLetterRow] = []
    wanted = [place for _, marked in named for place in marked.newest]
    read = await dead_letters_of(rt).read_many(wanted, damaged)
    causes, rows = [], list[DeadLetterRow]()
    for cause, marked in named:
        letters = [read[place] for place in marked.newest if place in read]
        rows += letters
        if letters:
            causes.append(cause_document(cause, marked, letters))
    return OpenCauses(
        causes,
        number,
        complete,
        len(found) - len(named),
        rows,
        [letter.ref for letter in damaged],
    )


async def read_marks(
    rt: Runtime, fingerprint: str, tried: int
) -> tuple[dict[str, Marked], int, bool]:
    """Return the marks by cause, their number, and whether these are all."""
    by_cause: dict[str, Marked] = {}
    number = 0
    marks: Any = dead_letters_of(rt).open_marks(rt.settings.tenant)
    async with aclosing(marks):
        async for mark in marks:
            if number == MOST_MARKS:
                return by_cause, number, False
            number += 1
            if fingerprint in {"", mark.fingerprint}:
                ref = ChunkRef(rt.settings.tenant, mark.job, mark.chunk)
                marked = by_cause.setdefault(mark.fingerprint, Marked())
                marked.add(ref, mark.gen or 0, mark, tried)
    return by_cause, number, True


def cause_document(
    cause: str, marked: Marked, letters: list[DeadLetterRow]
) -> Document:
    """Return the document of a cause, as of all its letters."""
    return group_document(letters) | {
        **({"fingerprint": cause} if cause else {}),
        "count": marked.count,
        "jobs": sorted(marked.jobs),
        "first_died_at": marked.first,
        "last_died_at": marked.last,
        "pipelines": sorted(marked.pipelines),
    }
