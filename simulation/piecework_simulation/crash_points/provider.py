"""Simulate the provider of the sweep: it counts calls and records bookings.

Its bookings ignore idempotency keys: two executed calls are two bookings.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from piecework_simulation.crash_points.fault_points import FaultInjector
from piecework_simulation.engine.process import PROCESS, Process
from piecework_simulation.provider import (
    CURRENT_CALL,
    OutgoingCall,
    Provider,
    ProviderError,
)

#: The number of the current call, and the process that makes it.
CALLER: ContextVar[tuple[int | None, Process]] = ContextVar("CALLER")
RECORDING_PROVIDER: ContextVar[RecordingProvider] = ContextVar("TOWN")


class BookingEvent(NamedTuple):
    """A record: a booking was made for a customer, or cancelled."""

    what: str
    n: int
    undone: bool


@dataclass(slots=True)
class RecordingProvider(Provider):
    """A provider that counts calls, receives faults, and at first refuses some calls.

    Attributes:
        bookings: The number of active bookings by step and customer.
        history: All booking events in order.
        release: Set when held calls are released.
        recovered: Whether it accepts every call from now on.
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
        """Look up a key; this is counted like any other call."""
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
        """Execute a call; its reply may be lost, or its sender dead."""
        number, process = CALLER.get()
        reply = self.world.loop.create_future()
        await Provider.execute(self, function, args, kwargs, key, outgoing, reply)
        self.injector.on_applied(number, process)
        error = reply.exception()
        if self.injector.loses_reply(number):
            error = ConnectionResetError("The connection was closed.")
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(reply.result())

    # ── the effect of an executed call ──────────────────────────────────────

    async def answer_or_hold(self, where: str, kind: str) -> None:
        """Refuse or hold the call if its condition requires it."""
        if kind == f"{where}:refused" and not self.recovered:
            raise ProviderError(422)
        if kind == f"{where}:held":
            await self.release.wait()

    def record_booking(self, what: str, n: int) -> None:
        """Record a booking; a second one is a violation."""
        self.history.append(BookingEvent(what, n, undone=False))
        self.bookings[f"{what} {n}"] += 1
        if self.bookings[f"{what} {n}"] > 1:
            self.report_violation(f"I6: {what} {n} is booked twice")

    def record_cancellation(self, what: str, n: int) -> None:
        """Record a cancellation, and remove the booking if it exists."""
        self.history.append(BookingEvent(what, n, undone=True))
        self.bookings.pop(f"{what} {n}", None)
