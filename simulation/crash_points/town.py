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

from simulation.crash_points.strikes import FaultInjector
from simulation.outside import CURRENT_CALL, OutgoingCall, Provider, ProviderError
from simulation.process import PROCESS, Process

#: The number of the call that is being made, and who makes it.
CALLER: ContextVar[tuple[int | None, Process]] = ContextVar("CALLER")
RECORDING_PROVIDER: ContextVar[RecordingProvider] = ContextVar("TOWN")


class BookingEvent(NamedTuple):
    """A line of the town's book: something was done for somebody, or undone."""

    what: str
    n: int
    undone: bool


@dataclass(slots=True)
class RecordingProvider(Provider):
    """The outside: counted, struck, and at first not quite in order.

    Attributes:
        booked: How often something stands for somebody.
        history: All that was done and undone, in its order.
        gate: Set once those that are held up are let go.
        mended: Whether everybody is served from now on.
    """

    injector: FaultInjector = field(kw_only=True)
    bookings: Counter[str] = field(default_factory=Counter)
    history: list[BookingEvent] = field(default_factory=list)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    recovered: bool = False

    async def call(
        self,
        function: Callable[..., Awaitable[Any]],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        key: str,
    ) -> Any:
        """Make a call, unless its process dies of it."""
        inner = Provider.call(self, function, args, kwargs, key)
        return await self._counted(CURRENT_CALL.get().dependency.name, inner)

    async def look_up(self, key: str) -> Any:
        """Look something up: a call as any other."""
        inner = Provider.look_up(self, key)
        return await self._counted(
            f"{CURRENT_CALL.get().dependency.name} lookup", inner
        )

    async def _counted(self, name: str, inner: Awaitable[Any]) -> Any:
        injector, process = self.injector, PROCESS.get()
        number = injector.count_call(process, name)
        if process.dead:
            await self.world.loop.create_future()
        token = CALLER.set((number, process))
        try:
            return await inner
        finally:
            CALLER.reset(token)
            injector.on_answered(number, process)

    async def execute(
        self,
        function: Callable[..., Awaitable[Any]],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        key: str,
        outgoing: OutgoingCall,
        answer: asyncio.Future[Any],
    ) -> None:
        """Carry a call out; the reply may come to nobody, or be lost."""
        number, process = CALLER.get()
        reply = self.world.loop.create_future()
        await Provider.execute(self, function, args, kwargs, key, outgoing, reply)
        self.injector.on_applied(number, process)
        error = reply.exception()
        if self.injector.loses_reply(number):
            error = ConnectionResetError("the connection broke")
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(reply.result())

    # ── what it does when a call has landed ─────────────────────────────────

    async def answer_or_hold(self, where: str, kind: str) -> None:
        """Refuse somebody, or hold somebody up, where that is what awaits them."""
        if kind == f"{where}:refused" and not self.recovered:
            raise ProviderError(422)
        if kind == f"{where}:held":
            await self.release.wait()

    def record_booking(self, what: str, n: int) -> None:
        """Write something down for somebody; twice is once too often."""
        self.history.append(BookingEvent(what, n, undone=False))
        self.bookings[f"{what} {n}"] += 1
        if self.bookings[f"{what} {n}"] > 1:
            self.report_violation(f"I6: {what} {n} is booked twice")

    def record_cancellation(self, what: str, n: int) -> None:
        """Strike something out, if it was there."""
        self.history.append(BookingEvent(what, n, undone=True))
        self.bookings.pop(f"{what} {n}", None)
