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
from workers.ecs.agent import AgentError, ask
from workers.ecs.shield import MINUTES, ProtectionPolicy

AGENT = "ECS_AGENT_URI"
#: Seconds between two looks at what is in hand.
LOOK_S = 1.0


class Hands(Protocol):
    """What a worker has in hand, and whether it takes more."""

    def lease_count(self) -> int:
        """Return how many chunks it has claimed."""
        ...

    def unfinished(self) -> int:
        """Return how much it does that may claim one, a receive included."""
        ...

    def pause_intake(self, *, on: bool) -> None:
        """Let it take nothing new, or go on with that."""
        ...


@dataclass(slots=True)
class Protection:
    """Asks the agent, as long as the worker runs; begins unprotected as every task."""

    agent: str
    hands: Hands
    log: telemetry.Log
    shield: ProtectionPolicy

    async def run(self, stop: asyncio.Event) -> None:
        """Look until told to stop, then let go; where there is no ECS, do nothing."""
        now = asyncio.get_running_loop().time
        try:
            while self.agent and not stop.is_set():
                await self.look(now())
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await stop.wait()
        finally:
            self.hands.pause_intake(on=False)
        if now() < self.shield.until:
            await self.put(on=False)

    async def look(self, now: float) -> None:
        """Ask for what is due; whoever breathes takes nothing while we look."""
        breathes, hands = self.shield.breath(now), self.hands
        hands.pause_intake(on=breathes)
        left = hands.unfinished() if breathes else hands.lease_count()
        wish = self.shield.wish(now, busy=left > 0)
        if wish is not None:
            await self.put(on=wish)

    async def put(self, *, on: bool) -> None:
        """Ask for protection or its end; a refusal is said once, and tried again."""
        now = asyncio.get_running_loop().time
        wish = {"ProtectionEnabled": on} | ({"ExpiresInMinutes": MINUTES} if on else {})
        try:
            await ask(f"{self.agent}/task-protection/v1/state", wish)
        except AgentError as error:
            if self.shield.refused(now()):
                reason = str(error)
                telemetry.emit(
                    self.log, "ecs.refused", about="protection", reason=reason
                )
            return
        self.shield.granted(now(), on=on)
        telemetry.emit(self.log, "ecs.protection", on=on, minutes=MINUTES if on else 0)
