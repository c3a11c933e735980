"""What a look at a job is taken with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from piecework.fanout import Progress
from piecework.model import ChunkRef
from piecework.queue import Message
from piecework.reconcile.overdue import Overdue
from piecework.reconcile.sightings import LeaseObserver
from piecework.runtime import Runtime


async def nobody(ref: ChunkRef, gen: int) -> bool:
    """Stand in where no worker runs beside the reconciler."""
    del ref, gen
    return False


@dataclass(frozen=True, slots=True)
class Look:
    """The deployment, what was seen of it so far, and the worker beside us, if any.

    Attributes:
        progress: Told how far a submit is that is finished here: it may take long.
    """

    rt: Runtime
    take: Callable[[ChunkRef, int], Awaitable[bool]] = nobody
    sightings: LeaseObserver = field(default_factory=LeaseObserver)
    overdue: Overdue = field(default_factory=Overdue)
    progress: Progress = lambda *_: None

    async def hand_out(self, ref: ChunkRef, gen: int) -> None:
        """Give a chunk to the worker beside us, else to whoever gets the message."""
        if not await self.take(ref, gen):
            await self.rt.work.send([Message.about(ref, gen)])
