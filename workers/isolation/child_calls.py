"""The calls of a stage in a child: the worker orders them, the child runs them."""

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

#: Numbers are unique in a process, so that leftovers of an earlier stage match nothing.
NUMBERS: Iterator[int] = itertools.count(1)

#: Seconds between two progress messages: a tight loop would send millions.
SIGN_S = 0.05


@dataclass(slots=True)
class ChildCalls:
    """Replaces the worker's `Caller` during one run.

    Attributes:
        stage_ended: The stage has ended. No further message of it is sent: the worker
            reads the next stage's messages on the same channel.
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
        """Request a call from the worker, and return its value.

        Raises:
            RuntimeError: The stage has ended; a leftover task of it makes this call.
        """
        if self.stage_ended:
            message = f"{function.__qualname__} is called after the end of its stage."
            raise RuntimeError(message)
        number = next(NUMBERS)
        # The call's key is made of the arguments: what a key cannot hold fails here.
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
        """Wait for the call's result; if this task is cancelled, cancel the call first.

        A cancelled call stays registered: its effect may go on to its end.
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
        """Run work that the worker would not interrupt; here a death interrupts it."""
        return await work

    def progress(self) -> None:
        """Report progress to the worker, from any thread."""
        now = self.loop.time()
        if now - self.progress_sent_at >= SIGN_S:
            self.progress_sent_at = now
            self.loop.call_soon_threadsafe(self.send_progress)

    def send_progress(self) -> None:
        """Send a progress message."""
        if not self.stage_ended:
            self.channel.send(Progress())

    def start_attempt(self, request: Attempt) -> None:
        """Start an attempt that the worker has requested."""
        pending = self.pending.get(request.call)
        if pending is None:
            self.channel.send(AttemptResult(request.number))
            return
        attempt = self.run_attempt(request, pending)
        task = self.loop.create_task(attempt, context=pending.context)
        self.attempts[request.number] = task
        task.add_done_callback(lambda _: self.attempts.pop(request.number))

    async def run_attempt(self, request: Attempt, pending: PendingCall) -> None:
        """Call a function once, and send the result."""
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
        """Cancel an attempt; it sends its result when it has ended."""
        if number in self.attempts:
            self.attempts[number].cancel()

    def resolve_call(self, answer: CallResult) -> None:
        """Give the result of a call to the task that awaits it."""
        pending = self.pending.get(answer.call)
        if pending is not None and not pending.answer.done():
            pending.answer.set_result(answer)
