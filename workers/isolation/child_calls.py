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
from workers.isolation.asked import PendingCall
from workers.isolation.faults import error_from_fault
from workers.isolation.line import Channel
from workers.isolation.messages import (
    Attempt,
    AttemptResult,
    Call,
    CallResult,
    CancelCall,
    DependencySpec,
    Progress,
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

    channel: Channel
    loop: asyncio.AbstractEventLoop
    pending: dict[int, PendingCall] = field(default_factory=dict)
    attempts: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    raised: dict[int, BaseException] = field(default_factory=dict)
    stage: str = ""
    fallbacks_used: dict[str, FallbackUsed] = field(default_factory=dict)
    stage_ended: bool = False
    progress_sent_at: float = 0.0
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
        if self.stage_ended:
            message = f"{function.__qualname__} is called after the end of its stage."
            raise RuntimeError(message)
        number = next(NUMBERS)
        # As the key of the call is made of them: what it refuses is refused here.
        plain = json.loads(canonical_json([args, kwargs]))
        spec = DependencySpec.of(dependency)
        answer = self.loop.create_future()
        context = contextvars.copy_context()
        self.pending[number] = PendingCall(
            dependency, function, args, kwargs, context, answer
        )
        self.channel.send(Call(number, spec, function.__qualname__, *plain))
        return await self.wait_for_result(number, self.pending[number])

    async def wait_for_result(self, number: int, pending: PendingCall) -> Any:
        """Wait for the worker's answer; cut off, withdraw the call first.

        A call that was withdrawn is kept: an effect may go on to its end.
        """
        try:
            answer = await asyncio.shield(pending.answer)
        except asyncio.CancelledError:
            if not self.stage_ended:
                self.channel.send(CancelCall(number))
            await asyncio.wait([pending.answer])
            raise
        del self.pending[number]
        if answer.answered_by:
            fell = FallbackUsed(self.stage, pending.dependency.name, answer.answered_by)
            self.fallbacks_used[f"{number}"] = fell
        if answer.fault is not None:
            raise error_from_fault(answer.fault, self.raised)
        if answer.value is None:
            raise asyncio.CancelledError
        return values.decode(pending.function, answer.value)

    async def run_to_completion(self, work: Coroutine[Any, Any, R]) -> R:
        """Do what cannot be cut off: here it can, with the process."""
        return await work

    def progress(self) -> None:
        """Give the worker a sign of life, from whatever thread."""
        now = self.loop.time()
        if now - self.progress_sent_at >= SIGN_S:
            self.progress_sent_at = now
            self.loop.call_soon_threadsafe(self.send_progress)

    def send_progress(self) -> None:
        """Send a sign of life."""
        if not self.stage_ended:
            self.channel.send(Progress())

    def start_attempt(self, request: Attempt) -> None:
        """Begin an attempt that the worker has asked for."""
        pending = self.pending.get(request.call)
        if pending is None:
            self.channel.send(AttemptResult(request.number))
            return
        attempt = self.run_attempt(request, pending)
        task = self.loop.create_task(attempt, context=pending.context)
        self.attempts[request.number] = task
        task.add_done_callback(lambda _: self.attempts.pop(request.number))

    async def run_attempt(self, request: Attempt, pending: PendingCall) -> None:
        """Call a function once, and tell what came of it."""
        result = AttemptResult(request.number)
        try:
            result = AttemptResult(request.number, value=await pending.run(request))
        except Exception as error:  # noqa: BLE001 -- whatever a function raises
            self.raised[request.number] = error
            spec = pending.dependency_at(request.position)
            failure = classify(
                error,
                layer=spec.layer,
                now=self.clock(),
                translate=spec.classify,
            )
            piecework_error = isinstance(error, PieceworkError)
            result = AttemptResult(
                request.number, failure=failure, piecework_error=piecework_error
            )
        finally:
            self.channel.send(result)

    def cancel_attempt(self, number: int) -> None:
        """Cut an attempt off; it tells when it has ended."""
        if number in self.attempts:
            self.attempts[number].cancel()

    def resolve_call(self, answer: CallResult) -> None:
        """Hand an answer to whoever waits for it."""
        pending = self.pending.get(answer.call)
        if pending is not None and not pending.answer.done():
            pending.answer.set_result(answer)
