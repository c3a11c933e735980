"""Keep ECS from ending this task during a scale-in or deployment while it has work.

The worker requests protection when it has a chunk, and renews it before it expires. It
gives protection back only after some idle time, so that a worker with little work does
not request it for every chunk. `ProtectionPolicy` decides; this module acts.
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
#: Seconds between two checks of the workload.
POLL_S = 1.0


class Workload(Protocol):
    """The worker's chunks and its intake."""

    def lease_count(self) -> int:
        """Return how many chunks it has claimed."""
        ...

    def count_unfinished(self) -> int:
        """Return its active tasks and receives, each of which may claim a chunk."""
        ...

    def pause_intake(self, *, on: bool) -> None:
        """Pause or resume the intake of new chunks."""
        ...


@dataclass(slots=True)
class Protection:
    """Controls the protection of this task, which starts unprotected."""

    agent: str
    workload: Workload
    log: telemetry.Log
    policy: ProtectionPolicy

    async def run(self, stop: asyncio.Event) -> None:
        """Control the protection until the stop, then give it back (only on ECS)."""
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
        """Request the change that is due; pause the intake first if the policy must."""
        paused, workload = self.policy.must_pause(now), self.workload
        workload.pause_intake(on=paused)
        left = workload.count_unfinished() if paused else workload.lease_count()
        change = self.policy.desired_change(now, busy=left > 0)
        if change is not None:
            await self.set_protection(on=change)

    async def set_protection(self, *, on: bool) -> None:
        """Request protection or its end; log the first refusal of a row, and retry."""
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
