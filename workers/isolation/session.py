"""One run of a stage in a child, from the worker's side.

The functions of calls run in the child, but the worker orders them. Intent, attempts
and
result go through the one Caller of the claim, so journal, ledger, retries and budgets
work as in the worker. A child that dies in the middle of a call leaves an intent and an
effect of unknown outcome, as a dead worker does.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from piecework.call_names import CallScope, call_key
from piecework.context import Context
from workers.isolation.attempts import ChildAttempts
from workers.isolation.faults import fault_from_error
from workers.isolation.messages import (
    AttemptResult,
    Call,
    CallResult,
    CancelCall,
    CancelStage,
    Message,
    Progress,
    Run,
    StageResult,
)
from workers.isolation.process import Child, killed_error
from workers.isolation.remote import RemoteCall


@dataclass(slots=True)
class Session:
    """A run in a child."""

    child: Child
    ctx: Context[Any]
    attempts: ChildAttempts = field(init=False)
    calls: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    stage_result: StageResult | None = None
    result: asyncio.Future[StageResult] = field(init=False)
    reading: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        """Create the run's attempts."""
        self.attempts = ChildAttempts(self.child)

    async def run(self, request: Run) -> StageResult:
        """Return the stage's result, once no call of it is in flight.

        A cancelled run may leave attempts in flight: effects that the Caller drains.

        Raises:
            TransientError: `runtime.stage.killed`: the child died.
            ClaimLostError: The write of a call showed that the claim was lost.
        """
        self.result = asyncio.get_running_loop().create_future()
        self.reading = asyncio.create_task(self.read())
        try:
            self.child.channel.send(request)
            return await self.result
        except BaseException:
            self.cancel_stage()
            if self.calls:
                await asyncio.wait(list(self.calls.values()))
            raise

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
        """Handle one message."""
        match message:
            case Progress():
                self.ctx.progress()
            case Call() if not self.attempts.stage_cancelled:
                task = asyncio.create_task(self.make_call(message))
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
        function = remote.function(call.function)
        dependency = remote.dependency(call.spec, function)
        ctx, answer = self.ctx, CallResult(call.call)
        scope = CallScope(ctx.tenant, ctx.job, ctx.chunk, ctx.stage)
        try:
            value = await ctx.caller.call(
                scope, dependency, function, call.args, call.kwargs
            )
            key = call_key(scope, dependency, function, call.args, call.kwargs)
            fell = ctx.caller.fallbacks_used.get(key)
            by = fell.answered_by if fell else ""
            answer = CallResult(
                call.call, value=to_json(value).decode(), answered_by=by
            )
        except Exception as error:  # noqa: BLE001 -- it is the stage's to see
            answer = CallResult(
                call.call, fault=fault_from_error(error, call.spec.layer)
            )
        finally:
            self.child.channel.send(answer)

    def on_call_done(self, call: int, task: asyncio.Task[None]) -> None:
        """Remove an ended call; a lost claim ends the run."""
        del self.calls[call]
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.result.done():
            self.result.set_exception(error)
        self.finish()

    def finish(self) -> None:
        """End the run when stage and calls have ended: no effect may outlive it."""
        if self.result.done() or self.calls:
            return
        if self.stage_result is not None:
            self.result.set_result(self.stage_result)
        elif self.attempts.death_reason:
            self.result.set_exception(
                killed_error(self.attempts.death_reason, self.ctx.stage)
            )
