"""The outside of the sweep: each call to it counts, and it knows what stands for whom.

Its books are apart from all keys: whoever is booked twice is booked twice, whatever
was sent along.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from simulation.crash_points.strikes import Strikes
from simulation.outside import ASKED, Asked, Outside, OutsideError
from simulation.process import PROCESS, Process

#: The number of the call that is being made, and who makes it.
CALLER: ContextVar[tuple[int | None, Process]] = ContextVar("CALLER")
TOWN: ContextVar[Town] = ContextVar("TOWN")


class Entry(NamedTuple):
    """A line of the town's book: something was done for somebody, or undone."""

    what: str
    n: int
    undone: bool


@dataclass(slots=True)
class Town(Outside):
    """The outside: counted, struck, and at first not quite in order.

    Attributes:
        booked: How often something stands for somebody.
        history: All that was done and undone, in its order.
        gate: Set once those that are held up are let go.
        mended: Whether everybody is served from now on.
    """

    strikes: Strikes = field(kw_only=True)
    booked: Counter[str] = field(default_factory=Counter)
    history: list[Entry] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    mended: bool = False

    async def call(
        self,
        function: Callable[..., Awaitable[Any]],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        key: str,
    ) -> Any:
        """Make a call, unless its process dies of it."""
        true = Outside.call(self, function, args, kwargs, key)
        return await self._counted(ASKED.get().dependency.name, true)

    async def look_up(self, key: str) -> Any:
        """Look something up: a call as any other."""
        true = Outside.look_up(self, key)
        return await self._counted(f"{ASKED.get().dependency.name} lookup", true)

    async def _counted(self, name: str, true: Awaitable[Any]) -> Any:
        strikes, process = self.strikes, PROCESS.get()
        number = strikes.asked(process, name)
        if process.dead:
            await self.world.loop.create_future()
        token = CALLER.set((number, process))
        try:
            return await true
        finally:
            CALLER.reset(token)
            strikes.answered(number, process)

    async def land(
        self,
        function: Callable[..., Awaitable[Any]],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        key: str,
        asked: Asked,
        answer: asyncio.Future[Any],
    ) -> None:
        """Carry a call out; the reply may come to nobody, or be lost."""
        number, process = CALLER.get()
        reply = self.world.loop.create_future()
        await Outside.land(self, function, args, kwargs, key, asked, reply)
        self.strikes.applied(number, process)
        error = reply.exception()
        if self.strikes.loses(number):
            error = ConnectionResetError("the connection broke")
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(reply.result())

    # ── what it does when a call has landed ─────────────────────────────────

    async def serve(self, where: str, kind: str) -> None:
        """Refuse somebody, or hold somebody up, where that is what awaits them."""
        if kind == f"{where}:refused" and not self.mended:
            raise OutsideError(422)
        if kind == f"{where}:held":
            await self.gate.wait()

    def note_down(self, what: str, n: int) -> None:
        """Write something down for somebody; twice is once too often."""
        self.history.append(Entry(what, n, undone=False))
        self.booked[f"{what} {n}"] += 1
        if self.booked[f"{what} {n}"] > 1:
            self.broken(f"I6: {what} {n} stands twice")

    def strike_out(self, what: str, n: int) -> None:
        """Strike something out, if it was there."""
        self.history.append(Entry(what, n, undone=True))
        self.booked.pop(f"{what} {n}", None)
