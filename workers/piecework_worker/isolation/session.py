"""One run of a stage in a child, from the worker's side.

The functions of calls run in the child, but the worker orders them. Intent, attempts
and result go through the one Caller of the claim. So journal, ledger, retries and
budgets work as in the worker. A child may die in the middle of a call. Then it leaves
an intent and an effect of unknown outcome, as a dead worker does.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from typing import Any

from piecework.calls.call import call_key
from piecework.context import Context
from piecework.domain.protocols import WaitRequestedError
from piecework.errors import PermanentError, StateError, UsageError
from piecework.resilience.retry import answer_of
from piecework_worker.isolation.messages import (
    AskPerson,
    AttemptResult,
    Call,
    CallResult,
    CancelCall,
    CancelStage,
    MapEnd,
    MapPart,
    MapRead,
    Message,
    Progress,
    Run,
    Sleep,
    StageResult,
    fault_from_error,
)
from piecework_worker.isolation.process import Child, blocked_error, killed_error
from piecework_worker.isolation.remote_call import ChildAttempts, RemoteCall
from piecework_worker.isolation.session_maps import SessionMaps
from piecework_worker.loop_watchdog import PARTS


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
    maps: SessionMaps = field(init=False)

    def __post_init__(self) -> None:
        """Create the run's attempts."""
        drain = self.ctx.caller.effect_drain
        self.attempts = ChildAttempts(self.child, lambda: drain.draining)
        self.maps = SessionMaps(self.ctx)

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
        self.maps.close()
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
            case MapPart():
                self.maps.add(message)
            case Sleep() | AskPerson() | MapEnd() | MapRead() if (
                not self.attempts.stage_cancelled
            ):
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
        function.__arguments_text__ = call.arguments
        dependency = remote.dependency(
            call.spec, function, call.estimates, rows=call.rows
        )
        ctx, answer = self.ctx, CallResult(call.call)
        scope = ctx.scope
        try:
            made = ctx.caller.call(
                scope, dependency, function, call.plain, {}, digest=call.digest
            )
            value = answer_of(await made)
            key = call_key(scope, dependency, function, call.digest)
            fell = ctx.caller.fallbacks_used.get(key)
            by = fell.answered_by if fell else ""
            answer = CallResult(call.call, value=value, answered_by=by)
        except Exception as error:  # noqa: BLE001 -- it is the stage's to see
            answer = CallResult(
                call.call, fault=fault_from_error(error, call.spec.layer)
            )
        finally:
            self.child.channel.send(answer)

    async def wait(self, asked: Sleep | AskPerson | MapEnd | MapRead) -> None:
        """Wait through the Caller, and tell the child if the wait is over.

        Raises:
            WaitRequestedError: The chunk gives up its worker, and the run ends.
        """
        ctx, answer = self.ctx, CallResult(asked.call, value="null")
        try:
            if isinstance(asked, Sleep):
                await ctx.caller.sleep_until(ctx.scope, asked.until, asked.name)
            elif isinstance(asked, AskPerson):
                value = await ctx.caller.wait_for(ctx.scope, asked.ask)
                answer = CallResult(asked.call, value=value)
            else:
                answer = CallResult(asked.call, value=await self.maps.answer(asked))
        except (PermanentError, UsageError, StateError) as error:
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
