"""A stand-in for the ECS agent beside a task, on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

TASK = "158d1c8083dd49d6b527399fd6414f5c"
ARN = f"arn:aws:ecs:eu-west-1:111122223333:task/piecework-prod/{TASK}"
PROTECTED = {"protection": {"TaskArn": ARN, "ProtectionEnabled": True}}
THROTTLED = {"error": {"Arn": ARN, "Code": "ThrottlingException", "Message": "slow"}}
INVALID = {"failure": {"Arn": ARN, "Reason": "TASK_NOT_VALID", "Detail": ""}}


@dataclass
class Agent:
    """What it was asked for, and what it answers."""

    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    status: int = 200
    answer: Any = field(default_factory=lambda: dict(PROTECTED))
    task: Any = field(
        default_factory=lambda: {
            "TaskARN": ARN,
            "AvailabilityZone": "eu-west-1a",
            "DesiredStatus": "RUNNING",
        }
    )

    @property
    def wishes(self) -> list[bool]:
        """What was asked for, on or off."""
        return [bool(change["ProtectionEnabled"]) for change in self.asked]

    async def protect(self, request: web.Request) -> web.Response:
        """Answer a wish."""
        self.asked.append(await request.json())
        return web.json_response(self.answer, status=self.status)

    async def metadata(self, _: web.Request) -> web.Response:
        """Answer with the task's metadata."""
        return web.json_response(self.task)


@asynccontextmanager
async def agent() -> AsyncIterator[Agent]:
    """Run an agent."""
    stub = Agent()
    app = web.Application()
    app.router.add_put("/api/c1/task-protection/v1/state", stub.protect)
    app.router.add_get("/v4/c1/task", stub.metadata)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    stub.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield stub
    finally:
        await runner.cleanup()


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 -- what it waits for sets no event
            await asyncio.sleep(0.005)
