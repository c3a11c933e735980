"""One run of a stage in a child, from the worker's side.

The functions of calls run in the child, but the worker orders them. Intent, attempts
and result go through the one Caller of the claim, so journal, ledger, retries and
budgets work as in the worker. A child that dies in the middle of a call leaves an
intent and an effect of unknown outcome, as a dead worker does.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json

from piecework.calls.call import CallScope, key_of
from piecework.context import Context
from piecework.dependency import Dependency, Fallback, Usage
from piecework.domain.identity import declare_text
from piecework.domain.model import Effect
from piecework.domain.protocols import WaitRequestedError
from piecework.errors import PermanentError
from piecework.resilience.retry import answer_of
from piecework_worker.isolation.messages import (
    AskPerson,
    Attempt,
    AttemptError,
    AttemptResult,
    Call,
    CallResult,
    CancelAttempt,
    CancelCall,
    CancelStage,
    DependencySpec,
    Estimate,
    FallbackSpec,
    Message,
    PieceworkAttemptError,
    Progress,
    Run,
    Sleep,
    StageResult,
    fault_from_error,
)
from piecework_worker.isolation.process import Child, blocked_error, killed_error
from piecework_worker.loop_watchdog import PARTS

# ── attempts of a run's calls that are in flight in its child ─────────────────
#
# If a child dies, its attempts are cancelled, as those of a dead worker are. The next
# attempt of the chunk finds out the ends of their effects.


async def cut_off() -> None:
    """Cancel the task of a call whose function has no end: nothing failed."""
    if (task := asyncio.current_task()) is not None:
        task.cancel()
    await asyncio.sleep(0)


@dataclass(slots=True)
class ChildAttempts:
    """Runs functions in a child.

    Attributes:
        stage_cancelled: The stage is cancelled; its effects in flight are still
            drained.
        death_reason: How the child died.
    """

    child: Child
    stage_cancelled: bool = False
    death_reason: str = ""
    _under_way: dict[int, asyncio.Future[AttemptResult]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def run(
        self, call: int, key: str, *, lookup: bool = False, position: int = 0
    ) -> tuple[Any, Usage | None]:
        """Run a function in the child; return its value, and what it used if known.

        If this call is cancelled, it returns only after the function has ended.

        Raises:
            AttemptError: The error that the function raised.
            CancelledError: The child died.
        """
        if self.death_reason:
            await cut_off()
        number = next(self._numbers)
        future = asyncio.get_running_loop().create_future()
        self._under_way[number] = future
        self.child.channel.send(Attempt(call, number, key, lookup, position))
        try:
            done = await asyncio.shield(future)
        except asyncio.CancelledError:
            await self._cancel(number, future)
            if future.cancelled():
                await cut_off()
            raise
        finally:
            del self._under_way[number]
        if done.failure is not None:
            error = PieceworkAttemptError if done.piecework_error else AttemptError
            raise error(done.failure, number, done.usage)
        if done.value is None:
            await cut_off()
        return from_json(done.value), done.usage

    async def _cancel(
        self, number: int, attempt: asyncio.Future[AttemptResult]
    ) -> None:
        """Cancel an attempt; once its stage is cancelled, kill the child instead.

        A second cancellation repeats the request and still waits. The child runs other
        stages later, and no attempt of this one may be left in it.
        """
        while not attempt.done():
            if self.stage_cancelled:
                self.child.kill()
            self.child.channel.send(CancelAttempt(number))
            with suppress(asyncio.CancelledError):
                await asyncio.wait([attempt])

    def resolve(self, message: AttemptResult) -> None:
        """Record the result of an attempt."""
        future = self._under_way.get(message.number)
        if future is not None and not future.done():
            future.set_result(message)

    def abandon_all(self, how: str) -> None:
        """Cancel all attempts: the child died and will send no result."""
        self.death_reason = how
        for future in self._under_way.values():
            future.cancel()

    def __bool__(self) -> bool:
        """Return whether any attempt is in flight."""
        return bool(self._under_way)

    async def wait_until_idle(self) -> None:
        """Wait until no attempt is in flight or about to be retried."""
        while self._under_way:
            await asyncio.wait(list(self._under_way.values()))
            await asyncio.sleep(0)  # the task that awaited it runs first


@dataclass(slots=True)
class Session:
    """A run in a child.

    Attributes:
        blocked_s: Seconds without a message after which the child is killed.
        heard: The number of messages so far.
        blocked: Whether the child was killed because it blocked its event loop.
        requested_wait: The wait for which the chunk gives up its worker.
    """

    child: Child
    ctx: Context[Any]
    blocked_s: float = math.inf
    attempts: ChildAttempts = field(init=False)
    calls: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    stage_result: StageResult | None = None
    result: asyncio.Future[StageResult] = field(init=False)
    reading: asyncio.Task[None] | None = None
    heard: int = 0
    blocked: bool = False
    requested_wait: WaitRequestedError | None = None

    def __post_init__(self) -> None:
        """Create the run's attempts."""
        self.attempts = ChildAttempts(self.child)

    async def run(self, request: Run) -> StageResult:
        """Return the stage's result, once no call of it is in flight.

        A cancelled run may leave attempts in flight: effects that the Caller drains.

        Raises:
            TransientError: `runtime.stage.killed`: the child died;
                `runtime.stage.blocked_loop`: it was killed because it was silent.
            ClaimLostError: The write of a call showed that the claim was lost.
        """
        self.result = asyncio.get_running_loop().create_future()
        self.reading = asyncio.create_task(self.read())
        watching = asyncio.create_task(self.watch_silence())
        try:
            self.child.channel.send(request)
            return await self.result
        except BaseException:
            self.cancel_stage()
            if self.calls:
                await asyncio.wait(list(self.calls.values()))
            raise
        finally:
            watching.cancel()

    async def watch_silence(self) -> None:
        """Kill a child whose event loop sends nothing for `blocked_s`.

        It counts parts of that time without a message, because the worker's own loop
        may have been blocked or frozen.
        """
        silent = 0
        while silent < PARTS and self.blocked_s < math.inf:
            heard = self.heard
            await asyncio.sleep(self.blocked_s / PARTS)
            silent = 0 if self.heard > heard else silent + 1
        if silent:
            self.blocked = True
            self.child.kill()

    def cancel_stage(self) -> None:
        """Cancel the stage; kill its process unless an effect of it must be drained."""
        self.attempts.stage_cancelled = True
        if self.ctx.caller.drains_effects():
            self.child.channel.send(CancelStage())
        else:
            self.child.kill()
        for call in self.calls.values():
            call.cancel()

    def close(self) -> None:
        """Stop reading; attempts that would be retried are abandoned."""
        if self.reading is not None:
            self.reading.cancel()
        self.attempts.abandon_all("has ended its stage")

    async def read(self) -> None:
        """Handle messages until the channel is closed, then record the exit."""
        how = "was let go of"
        try:
            await self.listen()
            how = await self.child.describe_exit()
        finally:
            self.attempts.abandon_all(self.attempts.death_reason or how)
        self.finish()

    async def listen(self) -> None:
        """Handle the child's messages until its channel is closed."""
        try:
            while (message := await self.child.channel.receive()) is not None:
                self.handle(message)
        except ValueError:  # that was no message
            self.child.kill()

    def handle(self, message: Message) -> None:
        """Handle one message; `Alive` only says that the loop of the child runs."""
        self.heard += 1
        match message:
            case Progress():
                self.ctx.progress()
            case Call() if not self.attempts.stage_cancelled:
                task = asyncio.create_task(self.make_call(message))
                self.calls[message.call] = task
                task.add_done_callback(
                    lambda task: self.on_call_done(message.call, task)
                )
            case Sleep() | AskPerson() if not self.attempts.stage_cancelled:
                task = asyncio.create_task(self.wait(message))
                self.calls[message.call] = task
                task.add_done_callback(
                    lambda task: self.on_call_done(message.call, task)
                )
            case CancelCall() if message.call in self.calls:
                self.calls[message.call].cancel()
            case AttemptResult():
                self.attempts.resolve(message)
            case StageResult():
                self.stage_result = message
                self.finish()

    async def make_call(self, call: Call) -> None:
        """Make a call through the Caller, and send its result."""
        remote = RemoteCall(self.attempts, call.call)
        function = remote.function(call.function, call.text)
        function.__answer_schema__ = call.answer_schema
        dependency = remote.dependency(call.spec, function, call.estimates)
        ctx, answer = self.ctx, CallResult(call.call)
        scope = CallScope(ctx.tenant, ctx.job, ctx.chunk, ctx.stage, ctx.pipeline.name)
        try:
            made = ctx.caller.call(
                scope, dependency, function, call.plain, {}, digest=call.digest
            )
            value = answer_of(await made)
            key = key_of(scope, dependency, function, call.digest)
            fell = ctx.caller.fallbacks_used.get(key)
            by = fell.answered_by if fell else ""
            answer = CallResult(call.call, value=value, answered_by=by)
        except Exception as error:  # noqa: BLE001 -- it is the stage's to see
            answer = CallResult(
                call.call, fault=fault_from_error(error, call.spec.layer)
            )
        finally:
            self.child.channel.send(answer)

    async def wait(self, asked: Sleep | AskPerson) -> None:
        """Wait through the Caller, and tell the child if the wait is over.

        Raises:
            WaitRequestedError: The chunk gives up its worker, and the run ends.
        """
        ctx, answer = self.ctx, CallResult(asked.call, value="null")
        scope = CallScope(ctx.tenant, ctx.job, ctx.chunk, ctx.stage, ctx.pipeline.name)
        try:
            if isinstance(asked, Sleep):
                await ctx.caller.sleep_until(scope, asked.until, asked.name)
            else:
                value = await ctx.caller.wait_for(scope, asked.ask)
                answer = CallResult(asked.call, value=value)
        except PermanentError as error:
            answer = CallResult(asked.call, fault=fault_from_error(error, "runtime"))
        self.child.channel.send(answer)

    def on_call_done(self, call: int, task: asyncio.Task[None]) -> None:
        """Remove an ended call; a lost claim ends the run.

        A wait lets the other calls end first: their answers are paid for.
        """
        del self.calls[call]
        error = None if task.cancelled() else task.exception()
        if isinstance(error, WaitRequestedError):
            self.requested_wait = error
        elif error is not None and not self.result.done():
            self.result.set_exception(error)
        self.finish()

    def finish(self) -> None:
        """End the run when stage and calls have ended: no effect may outlive it."""
        if self.result.done() or self.calls:
            return
        if self.requested_wait is not None:
            self.result.set_exception(self.requested_wait)
        elif self.stage_result is not None:
            self.result.set_result(self.stage_result)
        elif self.attempts.death_reason:
            error = (
                blocked_error(self.blocked_s, self.ctx.stage)
                if self.blocked
                else killed_error(self.attempts.death_reason, self.ctx.stage)
            )
            self.result.set_exception(error)


# ── calls of a child ──────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RemoteCall:
    """Represents a call of the child in the worker."""

    attempts: ChildAttempts
    call: int

    def function(self, qualname: str, text: str, position: int = 0) -> RemoteFunction:
        """Return a function of the call's chain; the text stands for it in keys."""
        remote = RemoteFunction(qualname, self, position)
        # The child has compared the functions themselves.
        return declare_text(remote, text, text)

    def dependency(
        self,
        spec: DependencySpec,
        function: RemoteFunction,
        estimates: Sequence[Estimate] = (),
        position: int = 0,
    ) -> Dependency:
        """Return a dependency equal to the one in the child."""
        chain = enumerate(spec.fallback, 1)
        tokens, usd = estimates[position] if estimates else (0, None)
        return Dependency(
            name=spec.name,
            retry=spec.retry,
            effect=spec.effect,
            layer=spec.layer,
            timeout=spec.timeout,
            lookup=function.look_up if spec.effect is Effect.LOOKUP else None,
            fallback=[self.fallback(each, place, estimates) for place, each in chain],
            fallback_codes=spec.fallback_codes,
            cache_ttl_s=spec.cache_ttl_s,
            key_ttl_s=spec.key_ttl_s,
            provider=spec.provider,
            model=spec.model,
            version=spec.version,
            breaker=spec.breaker,
            limits=spec.limits,
            adaptive_rate=spec.adaptive_rate,
            by=spec.by,
            usage=function.usage_of if spec.has_usage else None,
            # None is refused: the estimate failed in the child.
            estimate=lambda *_, **__: tokens,  # type: ignore[arg-type]
            estimate_usd=None if usd is None else lambda *_, **__: usd,
        )

    def fallback(
        self, further: FallbackSpec, position: int, estimates: Sequence[Estimate]
    ) -> Fallback:
        """Return a fallback of the chain."""
        function = self.function(further.function, further.text, position)
        if further.spec is None:
            return Fallback(None, function.without_dependency())
        dependency = self.dependency(further.spec, function, estimates, position)
        return Fallback(dependency, function)


def _answer() -> Any: ...


def _call(*, idempotency_key: str) -> Any: ...


class RemoteFunction:
    """Represents a function of the child, with its name.

    Its return value is JSON already: `_answer` is annotated with that type.
    """

    __wrapped__ = staticmethod(_answer)
    __signature__ = inspect.signature(_call)
    #: The JSON schema of the answer, which the child knows; empty: not an effect.
    __answer_schema__ = ""

    def __init__(self, qualname: str, remote: RemoteCall, position: int) -> None:
        """Take the name that the call's key contains."""
        self.__qualname__ = qualname
        self.__name__ = qualname.rpartition(".")[2]
        self._remote, self._position = remote, position
        #: What the last attempt used, if known; no attempt: an answer of the journal.
        self._used: Usage | None = Usage()

    def usage_of(self, _: Any) -> Usage:
        """Return what the last attempt used; nothing for an answer from the journal.

        Raises:
            ValueError: The function of the child that computes it failed.
        """
        if self._used is None:
            message = "the child has no usage of this answer"
            raise ValueError(message)
        return self._used

    async def __call__(self, *_: Any, idempotency_key: str, **__: Any) -> Any:
        """Call the function in the child, which has the arguments."""
        return await self._call(idempotency_key)

    async def look_up(self, *_: Any, idempotency_key: str, **__: Any) -> Any:
        """Call the dependency's `lookup` in the child."""
        return await self._call(idempotency_key, lookup=True)

    def without_dependency(self) -> Any:
        """Return the function of a fallback that calls no dependency and has no key."""

        async def without_dependency(*_: Any, **__: Any) -> Any:
            return await self._call("")

        without_dependency.__name__ = self.__name__
        return without_dependency

    async def _call(self, key: str, *, lookup: bool = False) -> Any:
        remote = self._remote
        answer, self._used = await remote.attempts.run(
            remote.call, key, lookup=lookup, position=self._position
        )
        return answer
