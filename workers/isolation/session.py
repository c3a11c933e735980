"""One run of a stage in a child, as the worker sees it.

The functions of calls run in the child, their order is kept here: intent, attempts and
answer go through the one Caller of the claim, so that journal, ledger, retries and
budgets know no difference. A child that dies in mid-call leaves an intent behind, and
the effect in doubt, as a dead worker would.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from piecework.call_names import CallScope, call_key
from piecework.context import Context
from workers.isolation.attempts import Attempts
from workers.isolation.faults import fault_of
from workers.isolation.messages import (
    Answered,
    Attempted,
    Call,
    Cut,
    Ended,
    Message,
    Progress,
    Run,
    Withdraw,
)
from workers.isolation.process import Child, killed
from workers.isolation.remote import Remote


@dataclass(slots=True)
class Session:
    """A run under way."""

    child: Child
    ctx: Context[Any]
    attempts: Attempts = field(init=False)
    calls: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    ended: Ended | None = None
    over: asyncio.Future[Ended] = field(init=False)
    reading: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        """Have no attempt under way."""
        self.attempts = Attempts(self.child)

    async def run(self, order: Run) -> Ended:
        """Return what came of the stage, once none of its calls is under way.

        Cut off, it may leave attempts behind: effects that the Caller lets land.

        Raises:
            TransientError: `runtime.stage.killed`: the child died.
            ClaimLostError: The claim was lost, as a write of a call showed.
        """
        self.over = asyncio.get_running_loop().create_future()
        self.reading = asyncio.create_task(self.read())
        try:
            self.child.line.send(order)
            return await self.over
        except BaseException:
            self.cut_off()
            if self.calls:
                await asyncio.wait(list(self.calls.values()))
            raise

    def cut_off(self) -> None:
        """End the stage; unless an effect of it is to land, by ending its process."""
        self.attempts.cut = True
        if self.ctx.caller.lets_land():
            self.child.line.send(Cut())
        else:
            self.child.kill()
        for call in self.calls.values():
            call.cancel()

    def close(self) -> None:
        """Listen no longer; what would be tried again is not."""
        if self.reading is not None:
            self.reading.cancel()
        self.attempts.lose("has ended its stage")

    async def read(self) -> None:
        """Do what the child asks for, until its line is cut; then bury it."""
        how = "was let go of"
        try:
            await self.listen()
            how = await self.child.death()
        finally:
            self.attempts.lose(self.attempts.dead or how)
        self.finish()

    async def listen(self) -> None:
        """Do what the child asks for, until its line is cut."""
        try:
            while (message := await self.child.line.receive()) is not None:
                self.take(message)
        except ValueError:  # that was no message
            self.child.kill()

    def take(self, message: Message) -> None:
        """Do what one message asks for."""
        match message:
            case Progress():
                self.ctx.progress()
            case Call() if not self.attempts.cut:
                task = asyncio.create_task(self.carry(message))
                self.calls[message.call] = task
                task.add_done_callback(lambda task: self.call_ended(message.call, task))
            case Withdraw() if message.call in self.calls:
                self.calls[message.call].cancel()
            case Attempted():
                self.attempts.came(message)
            case Ended():
                self.ended = message
                self.finish()

    async def carry(self, call: Call) -> None:
        """Make a call through the Caller, and answer with what came of it."""
        remote = Remote(self.attempts, call.call)
        function = remote.function(call.function)
        dependency = remote.dependency(call.outside, function)
        ctx, answer = self.ctx, Answered(call.call)
        scope = CallScope(ctx.tenant, ctx.job, ctx.chunk, ctx.stage)
        try:
            value = await ctx.caller.call(
                scope, dependency, function, call.args, call.kwargs
            )
            key = call_key(scope, dependency, function, call.args, call.kwargs)
            fell = ctx.caller.fallbacks_used.get(key)
            by = fell.to if fell else ""
            answer = Answered(call.call, value=to_json(value).decode(), by=by)
        except Exception as error:  # noqa: BLE001 -- it is the stage's to see
            answer = Answered(call.call, fault=fault_of(error, call.outside.layer))
        finally:
            self.child.line.send(answer)

    def call_ended(self, call: int, task: asyncio.Task[None]) -> None:
        """Note the end of a call; a lost claim ends the run."""
        del self.calls[call]
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.over.done():
            self.over.set_exception(error)
        self.finish()

    def finish(self) -> None:
        """End the run when stage and calls have: a late effect may not outlive it."""
        if self.over.done() or self.calls:
            return
        if self.ended is not None:
            self.over.set_result(self.ended)
        elif self.attempts.dead:
            self.over.set_exception(killed(self.attempts.dead, self.ctx.stage))
