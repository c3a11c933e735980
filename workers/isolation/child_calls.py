"""The calls of a stage in a child: asked of the worker, carried out here."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import json
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from piecework import values
from piecework.call_names import CallScope
from piecework.canonical import canonical_json
from piecework.classify import classify
from piecework.dependency import Dependency
from piecework.errors import PieceworkError
from piecework.falling_back import FallbackUsed
from workers.isolation.asked import Asked
from workers.isolation.faults import error_of
from workers.isolation.line import Line
from workers.isolation.messages import (
    Answered,
    Attempt,
    Attempted,
    Call,
    Outside,
    Progress,
    Withdraw,
)

R = TypeVar("R")

#: Never used twice in a process: what an earlier stage left behind is not mistaken.
NUMBERS: Iterator[int] = itertools.count(1)

#: Seconds between two signs of life: a tight loop gives millions.
SIGN_S = 0.05


@dataclass(slots=True)
class ChildCalls:
    """Stands in for the worker's `Caller` during one run.

    Attributes:
        over: The stage has ended. Nothing more is said of it: the worker listens to
            the next one on the same line.
    """

    line: Line
    loop: asyncio.AbstractEventLoop
    asked: dict[int, Asked] = field(default_factory=dict)
    attempts: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    raised: dict[int, BaseException] = field(default_factory=dict)
    stage: str = ""
    fallbacks_used: dict[str, FallbackUsed] = field(default_factory=dict)
    over: bool = False
    said_at: float = 0.0
    clock: Callable[[], float] = time.time

    async def call(
        self,
        _scope: CallScope,
        dependency: Dependency,
        function: Callable[..., Awaitable[Any]],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Have the worker make a call, and return its value.

        Raises:
            RuntimeError: The stage has ended; this is something that it left behind.
        """
        if self.over:
            message = f"{function.__qualname__} is called after the end of its stage."
            raise RuntimeError(message)
        number = next(NUMBERS)
        # As the key of the call is made of them: what it refuses is refused here.
        plain = json.loads(canonical_json([args, kwargs]))
        outside = Outside.of(dependency)
        answer = self.loop.create_future()
        context = contextvars.copy_context()
        self.asked[number] = Asked(dependency, function, args, kwargs, context, answer)
        self.line.send(Call(number, outside, function.__qualname__, *plain))
        return await self.answered(number, self.asked[number])

    async def answered(self, number: int, asked: Asked) -> Any:
        """Wait for the worker's answer; cut off, withdraw the call first.

        A call that was withdrawn is kept: an effect may go on to its end.
        """
        try:
            answer = await asyncio.shield(asked.answer)
        except asyncio.CancelledError:
            if not self.over:
                self.line.send(Withdraw(number))
            await asyncio.wait([asked.answer])
            raise
        del self.asked[number]
        if answer.by:
            fell = FallbackUsed(self.stage, asked.dependency.name, answer.by)
            self.fallbacks_used[f"{number}"] = fell
        if answer.fault is not None:
            raise error_of(answer.fault, self.raised)
        if answer.value is None:
            raise asyncio.CancelledError
        return values.decode(asked.function, answer.value)

    async def to_its_end(self, work: Coroutine[Any, Any, R]) -> R:
        """Do what cannot be cut off: here it can, with the process."""
        return await work

    def progress(self) -> None:
        """Give the worker a sign of life, from whatever thread."""
        now = self.loop.time()
        if now - self.said_at >= SIGN_S:
            self.said_at = now
            self.loop.call_soon_threadsafe(self.sign)

    def sign(self) -> None:
        """Send a sign of life."""
        if not self.over:
            self.line.send(Progress())

    def begin(self, order: Attempt) -> None:
        """Begin an attempt that the worker has asked for."""
        asked = self.asked.get(order.call)
        if asked is None:
            self.line.send(Attempted(order.number))
            return
        attempt = self.attempt(order, asked)
        task = self.loop.create_task(attempt, context=asked.context)
        self.attempts[order.number] = task
        task.add_done_callback(lambda _: self.attempts.pop(order.number))

    async def attempt(self, order: Attempt, asked: Asked) -> None:
        """Call a function once, and tell what came of it."""
        told = Attempted(order.number)
        try:
            told = Attempted(order.number, value=await asked.carry_out(order))
        except Exception as error:  # noqa: BLE001 -- whatever a function raises
            self.raised[order.number] = error
            outside = asked.asks(order.place)
            failure = classify(
                error,
                layer=outside.layer,
                now=self.clock(),
                translate=outside.classify,
            )
            own = isinstance(error, PieceworkError)
            told = Attempted(order.number, failure=failure, own=own)
        finally:
            self.line.send(told)

    def drop(self, number: int) -> None:
        """Cut an attempt off; it tells when it has ended."""
        if number in self.attempts:
            self.attempts[number].cancel()

    def answer(self, answer: Answered) -> None:
        """Hand an answer to whoever waits for it."""
        asked = self.asked.get(answer.call)
        if asked is not None and not asked.answer.done():
            asked.answer.set_result(answer)
