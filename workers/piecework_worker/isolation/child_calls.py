"""The calls of a stage in a child process.

The worker admits, records and repeats each call; the child only executes its attempts.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import itertools
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from piecework.calls.call import CallScope, call_key, copy_arguments
from piecework.calls.equal_calls import operation_ref
from piecework.calls.fallback import call_function
from piecework.calls.in_flight import has_read_answer
from piecework.calls.invoke import as_failure
from piecework.calls.usage import estimated_tokens, estimated_usd, validated
from piecework.dependency import (
    Dependency,
    FallbackUsed,
    Usage,
    key_argument,
    outside_chunk,
    taking,
)
from piecework.domain import values
from piecework.domain.arguments import digest_of
from piecework.domain.identity import CalledFunctions, function_text, path_of
from piecework.domain.kept_call import Keeps, arguments_text, beginning
from piecework.domain.map_rows import MapRows
from piecework.domain.protocols import ChildEnd
from piecework.domain.question import Ask
from piecework.domain.result_types import result_schema, result_type
from piecework.errors import PermanentError, PieceworkError
from piecework.errors.classify import classify, refused_answer
from piecework.errors.payload_redaction import texts
from piecework.idempotency.strategies import KnownOperation
from piecework.resilience.retry import Answered
from piecework_worker.isolation.child_maps import PagedResults, parts_of, read_end
from piecework_worker.isolation.messages import (
    AskPerson,
    Attempt,
    AttemptResult,
    BatchedRow,
    Call,
    CallResult,
    CancelCall,
    DependencySpec,
    Estimate,
    MapEnd,
    MapPart,
    MapRead,
    Progress,
    Sleep,
    error_from_fault,
)
from piecework_worker.isolation.process import Channel


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call whose result the stage awaits."""

    dependency: Dependency
    bound: functools.partial[Awaitable[Any]]
    context: contextvars.Context
    answer: asyncio.Future[CallResult]

    async def run(self, request: Attempt) -> str:
        """Run an attempt that the worker requests; return its value as JSON."""
        if request.position == 0:
            return await self.invoke(request, self.dependency, self.bound.func)
        further = self.dependency.fallback[request.position - 1]
        if further.dependency is not None:
            return await self.invoke(request, further.dependency, further.function)
        own = copy_arguments(further.function, self.bound.args, self.bound.keywords)
        value = await call_function(further, *own.args, **own.keywords)
        return values.encode(further.function, value)

    async def invoke(
        self,
        request: Attempt,
        dependency: Dependency,
        function: Callable[..., Awaitable[Any]],
    ) -> str:
        """Call a dependency's function, or look up the result of an earlier attempt."""
        pending = (
            dependency.lookup if request.lookup and dependency.lookup else function
        )
        own = copy_arguments(pending, self.bound.args, self.bound.keywords)
        taken = nullcontext() if request.lane is None else taking(request.lane)
        with outside_chunk(), taken:
            value = await own(**key_argument(pending, request.key))
        missing = request.lookup and value is None
        return "null" if missing else values.encode(function, value)

    def usage_at(self, position: int, value: str) -> Usage | None:
        """Return what an answer cost; None: nothing says it, or that failed."""
        further = self.dependency.fallback[position - 1] if position else None
        dependency = further.dependency if further else self.dependency
        if dependency is None or dependency.usage is None:
            return None
        function = further.function if further else self.bound.func
        with suppress(Exception):  # a user's function, about money; the worker logs it
            return validated(dependency.usage(values.decode(function, value)))
        return None

    def dependency_at(self, position: int) -> Dependency:
        """Return the dependency at a position of the fallback chain, for its errors."""
        further = self.dependency.fallback[position - 1] if position else None
        return (further and further.dependency) or self.dependency


def known_operation(
    tenant: str,
    bound: functools.partial[Awaitable[Any]],
    dependency: Dependency,
    function: Callable[..., Awaitable[Any]],
) -> KnownOperation | None:
    """Return the operation of a call that other chunks may make, too.

    Raises:
        PermanentError: `idempotency.key.unusable`.
    """
    by = dependency.by
    ref = operation_ref(tenant, dependency, function, bound.args, bound.keywords)
    return KnownOperation(ref, by.ttl_s, by.best_effort) if ref and by else None


def estimates_of(
    dependency: Dependency, bound: functools.partial[Any]
) -> Iterator[Estimate]:
    """Yield what each member of a chain is estimated to use.

    Raises:
        PermanentError: `runtime.quota.estimate_failed`, of the dependency itself.
    """
    yield estimate_of(dependency, bound)
    for each in dependency.fallback:
        estimate: Estimate = (None, None)
        if each.dependency is not None:
            with suppress(PermanentError):  # the worker raises it if it is called
                estimate = estimate_of(each.dependency, bound)
        yield estimate


def rows_of(
    dependency: Dependency, bound: functools.partial[Any]
) -> list[BatchedRow | None]:
    """Return the row of each member of a chain in a batch; empty: none has the lane."""
    chain = [dependency, *(each.dependency for each in dependency.fallback)]
    if not any(each is not None and each.batch is not None for each in chain):
        return []
    return [None if each is None else batched_row(each, bound) for each in chain]


def batched_row(
    dependency: Dependency, bound: functools.partial[Any]
) -> BatchedRow | None:
    """Return the row of a call in a batch; None: its model has no batch lane."""
    batch = dependency.batch
    if batch is None:
        return None
    own = copy_arguments(bound.func, bound.args, bound.keywords)
    body, size = batch.row_of(*own.args, **own.keywords)
    return BatchedRow(batch.key, body, size, batch.most_row_bytes)


def estimate_of(dependency: Dependency, bound: functools.partial[Any]) -> Estimate:
    """Return what a call is estimated to use."""
    tokens = estimated_tokens(dependency, bound)
    if dependency.estimate_usd is None:
        return tokens, None
    return tokens, estimated_usd(dependency, bound)


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
    waits: dict[int, asyncio.Future[CallResult]] = field(default_factory=dict)
    stage: str = ""
    fallbacks_used: dict[str, FallbackUsed] = field(default_factory=dict)
    functions: CalledFunctions = field(default_factory=CalledFunctions)
    stage_ended: bool = False
    progress_sent_at: float = 0.0
    local_clock: Callable[[], float] = time.time
    clock_offset_s: float = 0.0
    keeps: Keeps = "failed"

    async def call(
        self,
        scope: CallScope,
        dependency: Dependency,
        function: Callable[..., Awaitable[Any]],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Answered[str]:
        """Request a call from the worker, and return its answer.

        Raises:
            UsageError: The call cannot be told from others.
            PermanentError: `idempotency.key.unusable`: the same, of its operation.
            RuntimeError: The stage has ended; a leftover task of it makes this call.
        """
        name = path_of(function)
        if self.stage_ended:
            message = f"{name} is called after the end of its stage."
            raise RuntimeError(message)
        number, digest = next(NUMBERS), digest_of(args, kwargs)
        key = call_key(scope, dependency, function, digest)
        self.functions.require_same(key, function)
        result_type(function)  # refuses before anything is sent
        bound = copy_arguments(function, args, kwargs)
        operation_of = functools.partial(known_operation, scope.tenant, bound)
        spec = DependencySpec.of(dependency, function, operation_of)
        text = function_text(function)
        # Half of a character cannot be sent.
        plain = [one.encode(errors="replace").decode() for one in texts([args, kwargs])]
        answer = self.loop.create_future()
        context = contextvars.copy_context()
        self.pending[number] = PendingCall(dependency, bound, context, answer)
        estimates = list(estimates_of(dependency, bound))
        # A call that is pure now may have been an effect in doubt of an earlier claim.
        schema = result_schema(function)
        kept = self.arguments_of(dependency, function, args, kwargs)
        self.channel.send(
            Call(
                *(number, spec, name, text, digest, plain, estimates),
                rows=rows_of(dependency, bound),
                answer_schema=schema,
                arguments=kept,
            )
        )
        return await self.wait_for_result(number, self.pending[number])

    def arguments_of(
        self,
        dependency: Dependency,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> str:
        """Return the arguments that the worker may keep, of long ones the beginning."""
        if (dependency.record_calls or self.keeps) == "none":
            return ""
        text = beginning(arguments_text(function, args, kwargs))
        return text.encode(errors="replace").decode()

    def clock(self) -> float:
        """Return the time by the worker's clock, which decides when a sleep ends."""
        return self.local_clock() + self.clock_offset_s

    async def sleep_until(self, _: CallScope, until: float, name: str) -> None:
        """Ask for a sleep; the worker ends this process unless the moment has passed.

        Raises:
            RuntimeError: The stage has ended; a leftover task of it sleeps.
        """
        number = self.new_wait()
        self.channel.send(Sleep(number, until, name))
        await self.waits[number]

    async def wait_for(self, _: CallScope, ask: Ask) -> str:
        """Send a question; the worker ends this process unless it has ended.

        Raises:
            RuntimeError: The stage has ended; a leftover task of it asks.
            AnswerTimeoutError: `runtime.wait.timed_out`.
        """
        number = self.new_wait()
        self.channel.send(AskPerson(number, ask))
        return await self.answer_of(number)

    async def map(self, _: CallScope, rows: MapRows) -> tuple[str, ChildEnd]:
        """Send the rows of a child job; the worker ends this process unless it ended.

        Raises:
            RuntimeError: The stage has ended; a leftover task of it maps.
            PieceworkError: As `Children.find`.
        """
        number = self.new_wait()
        async for part in parts_of(rows):
            self.channel.send(MapPart(number, rows.pipeline.name, part))
        self.channel.send(MapEnd(number, rows.pipeline.name, rows.digest))
        text = await self.answer_of(number)
        return read_end(text, PagedResults(functools.partial(self.read_map, number)))

    async def read_map(self, of: int, reader: int, failures: bool) -> tuple[int, str]:  # noqa: FBT001 -- of `PagedResults`
        """Return the number of a reading, and its next page."""
        number = self.new_wait()
        self.channel.send(MapRead(number, of, reader or number, failures))
        return reader or number, await self.answer_of(number)

    async def answer_of(self, number: int) -> str:
        """Return the answer of a wait.

        Raises:
            Exception: The error of the wait.
        """
        answer = await self.waits[number]
        del self.waits[number]
        if answer.fault is not None:
            raise error_from_fault(answer.fault, self.raised)
        return answer.value or "null"

    def new_wait(self) -> int:
        """Return the number of a new wait.

        Raises:
            RuntimeError: The stage has ended.
        """
        if self.stage_ended:
            message = "A wait begins after the end of its stage."
            raise RuntimeError(message)
        number = next(NUMBERS)
        self.waits[number] = self.loop.create_future()
        return number

    async def wait_for_result(self, number: int, pending: PendingCall) -> Answered[str]:
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
        return Answered(answer.value)

    async def run_to_completion(self, work: Coroutine[Any, Any, R]) -> R:
        """Run work that the worker would not interrupt; here a death interrupts it."""
        return await work

    def note_read(self, _: str) -> None:
        """Report progress: the worker has kept what it sent."""
        self.progress()

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
            value = await pending.run(request)
            usage = pending.usage_at(request.position, value)
            result = AttemptResult(request.number, value=value, usage=usage)
        except BaseException as raised:  # noqa: BLE001 -- whatever a function raises
            error = as_failure(raised)
            self.raised[request.number] = error
            spec = pending.dependency_at(request.position)
            failure = classify(
                error,
                layer=spec.layer,
                now=self.clock(),
                translate=spec.classify,
                in_call=True,
            )
            used = (
                error.facts.get("usage") if isinstance(error, PieceworkError) else None
            )
            result = AttemptResult(
                request.number,
                failure=failure,
                has_read_answer=has_read_answer(error),
                usage=used if isinstance(used, Usage) else None,
                refused=refused_answer(error),
            )
        finally:
            self.channel.send(result)

    def cancel_attempt(self, number: int) -> None:
        """Cancel an attempt; it sends its result when it has ended."""
        if number in self.attempts:
            self.attempts[number].cancel()

    def resolve_call(self, answer: CallResult) -> None:
        """Give the result of a call, or of a wait, to the task that awaits it."""
        wait = self.waits.get(answer.call)
        if wait is not None and not wait.done():
            wait.set_result(answer)
        pending = self.pending.get(answer.call)
        if pending is not None and not pending.answer.done():
            pending.answer.set_result(answer)
