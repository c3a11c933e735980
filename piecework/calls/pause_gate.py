"""Keep the calls of a claim from starting while its job is paused.

A call that would start waits at the gate, where its stage cannot see it. Calls in
flight finish, and their answers are stored. The claim is quiet once all its calls wait,
or its next stage waits. Then the worker interrupts it and gives the chunk back. If the
job is resumed before that, the gate opens and the claim goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from piecework.resilience.lanes import Lane


@dataclass(slots=True)
class PauseGate:
    """The gate of one claim.

    Attributes:
        on_nothing_in_flight: Called when nothing of the claim is in flight any more.
        is_closed: Whether no call may start.
        always_open: Whether neither a pause nor a spent budget keeps the calls back.
        was_held: Whether a call has waited for the release of a stopping worker.
    """

    on_nothing_in_flight: Callable[[], None] = lambda: None
    is_closed: bool = False
    always_open: bool = False
    was_held: bool = False
    _requested: int = 0
    _waiting: int = 0
    _held: int = 0
    _slow: int = 0
    _at_boundary: bool = False
    _opened: asyncio.Event = field(default_factory=asyncio.Event)

    def close(self) -> None:
        """Let no further call start."""
        if not self.is_closed and not self.always_open:
            self.is_closed = True
            self._opened.clear()
            self._check()

    def open(self) -> None:
        """Let calls start again."""
        self.is_closed = False
        self._opened.set()

    def keep_open(self) -> None:
        """Open the gate for good: a chunk that ends in a cancel is not paused."""
        self.always_open = True
        self.open()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count a call from its request until its answer is stored."""
        self._requested += 1
        try:
            yield
        finally:
            self._requested -= 1
            self._check()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count a requested call that is not in flight, such as before a retry."""
        self._waiting += 1
        self._check()
        try:
            yield
        finally:
            self._waiting -= 1

    @contextmanager
    def in_lane(self, lane: Lane) -> Iterator[None]:
        """Count an attempt in flight whose provider is slow on purpose."""
        slow = bool(lane.tier)
        self._slow += slow
        try:
            yield
        finally:
            self._slow -= slow

    @property
    def is_slow(self) -> bool:
        """Whether an attempt is in flight that only its own timeout limits."""
        return self._slow > 0

    @property
    def requested(self) -> int:
        """The calls that were requested, and are not answered yet."""
        return self._requested

    @property
    def is_waiting(self) -> bool:
        """Whether a requested call is not in flight: its stage is not hung."""
        return self._waiting > 0

    async def wait(self) -> None:
        """Wait until a call may start."""
        while self.is_closed:
            await self._opened.wait()

    async def wait_for_release(self) -> None:
        """Wait until the worker, which stops, interrupts the claim."""
        self._held, self.was_held = self._held + 1, True
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._held -= 1

    @property
    def waits_for_release(self) -> bool:
        """Whether all requested calls wait until the worker interrupts the claim."""
        return self._held > 0 and self._held == self._requested

    async def wait_at_boundary(self) -> None:
        """Wait until the next stage may start."""
        if self.is_closed:
            self._at_boundary = True
            self._check()
            await self.wait()
            self._at_boundary = False

    def _check(self) -> None:
        """Report that nothing is in flight, if that is so."""
        idle = self._at_boundary or self._waiting > 0
        if self.is_closed and idle and self._waiting == self._requested:
            self.on_nothing_in_flight()
