"""Read the children that the chunks of a job wait for: how far each of them is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from piecework.domain.chunk import Chunk
from piecework.domain.refs import JobRef
from piecework.reading import Reading
from piecework.store.completion import Tallies

#: Children that are read, at most; each costs two requests or more.
MOST_CHILDREN: Final = 3


@dataclass(frozen=True, slots=True)
class ChildProgress:
    """How far a child is.

    Attributes:
        status: Its status; empty: it does not exist.
        ended: The chunks of it that have ended, of `chunks`.
    """

    job: str
    status: str
    ended: int
    chunks: int

    @property
    def words(self) -> str:
        """How far it is, in words."""
        done = f"{self.ended} of {self.chunks} done"
        return f"child job {self.job}, {done} ({self.status})"


async def read_children(rt: Reading, chunks: Iterable[Chunk]) -> list[ChildProgress]:
    """Return how far the children are that chunks wait for, or some of them."""
    names = sorted({(c.ref.tenant, c.child) for c in chunks if c.child})
    refs = [JobRef(*name) for name in names[:MOST_CHILDREN]]
    found = await asyncio.gather(*(read_child(rt, ref) for ref in refs))
    return [child for child in found if child is not None]


async def read_child(rt: Reading, ref: JobRef) -> ChildProgress | None:
    """Return how far a child is; None: it does not exist."""
    job = await rt.jobs.read(ref)
    if job is None:
        return None
    if job.status.ended:
        ended = sum((job.outcomes or {}).values())
    else:
        ended = await Tallies(rt.table).count_ended(ref, job.chunks)
    return ChildProgress(ref.job, str(job.status), ended, job.chunks)
