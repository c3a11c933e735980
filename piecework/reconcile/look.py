"""The context of a reconciler's pass."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from piecework.fanout import Progress
from piecework.model import ChunkRef
from piecework.queue import Message
from piecework.reconcile.overdue import Overdue
from piecework.reconcile.sightings import LeaseObserver
from piecework.runtime import Runtime


async def refuse_chunk(ref: ChunkRef, gen: int) -> bool:
    """Refuse every chunk: the default without a worker in this process."""
    del ref, gen
    return False


@dataclass(frozen=True, slots=True)
class PassContext:
    """The deployment, the observations of earlier passes, and the local worker.

    Attributes:
        take: Offers a chunk to the worker of this process; returns whether it took it.
        progress: Reports the progress of a submit that this pass completes.
    """

    rt: Runtime
    take: Callable[[ChunkRef, int], Awaitable[bool]] = refuse_chunk
    sightings: LeaseObserver = field(default_factory=LeaseObserver)
    overdue: Overdue = field(default_factory=Overdue)
    progress: Progress = lambda *_: None

    async def dispatch(self, ref: ChunkRef, gen: int) -> None:
        """Give a chunk to the local worker; otherwise send its message."""
        if not await self.take(ref, gen):
            await self.rt.work.send([Message.about(ref, gen)])
