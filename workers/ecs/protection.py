"""Keep ECS from ending this task in a scale-in or a deployment while it has work.

It asks for protection when there is a chunk in hand, prolongs it before it runs out,
and gives it back when nothing was in hand for a while, so that a worker with little to
do does not ask for every chunk. `Shield` decides; here it is done.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from piecework import telemetry
from workers.ecs.agent import AgentError, request
from workers.ecs.shield import MINUTES, ProtectionPolicy

AGENT = "ECS_AGENT_URI"
#: Seconds between two looks at what is in hand.
POLL_S = 1.0


class Workload(Protocol):
    """What a worker has in hand, and whether it takes more."""

    def lease_count(self) -> int:
        """Return how many chunks it has claimed."""
        ...

    def count_unfinished(self) -> int:
        """Return how much it does that may claim one, a receive included."""
        ...

    def pause_intake(self, *, on: bool) -> None:
        """Let it take nothing new, or go on with that."""
        ...


@dataclass(slots=True)
class Protection:
    """Asks the agent, as long as the worker runs; begins unprotected as every task."""

    agent: str
    workload: Workload
    log: telemetry.Log
    policy: ProtectionPolicy

    async def run(self, stop: asyncio.Event) -> None:
        """Look until told to stop, then let go; where there is no ECS, do nothing."""
        now = asyncio.get_running_loop().time
        try:
            while self.agent and not stop.is_set():
                await self.poll(now())
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S):
                        await stop.wait()
        finally:
            self.workload.pause_intake(on=False)
        if now() < self.policy.protected_until:
            await self.set_protection(on=False)

    async def poll(self, now: float) -> None:
        """Ask for what is due; whoever breathes takes nothing while we look."""
        paused, workload = self.policy.must_pause(now), self.workload
        workload.pause_intake(on=paused)
        left = workload.count_unfinished() if paused else workload.lease_count()
        change = self.policy.desired_change(now, busy=left > 0)
        if change is not None:
            await self.set_protection(on=change)

    async def set_protection(self, *, on: bool) -> None:
        """Ask for protection or its end; a refusal is said once, and tried again."""
        now = asyncio.get_running_loop().time
        change = {"ProtectionEnabled": on} | (
            {"ExpiresInMinutes": MINUTES} if on else {}
        )
        try:
            await request(f"{self.agent}/task-protection/v1/state", change)
        except AgentError as error:
            if self.policy.on_refused(now()):
                reason = str(error)
                telemetry.emit(
                    self.log, "ecs.refused", about="protection", reason=reason
                )
            return
        self.policy.on_granted(now(), on=on)
        telemetry.emit(self.log, "ecs.protection", on=on, minutes=MINUTES if on else 0)
