"""The worker against a stub of the agent: protected while it has work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from piecework_worker import ecs
from piecework_worker.ecs import MINUTES, Protection, ProtectionPolicy
from tests.unit.piecework.fakes import Log
from tests.unit.workers.ecs_stub import INVALID, THROTTLED, agent, until


@dataclass
class Workload:
    """A workload that the test sets."""

    holding: int = 0
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    log: Log = field(default_factory=Log)
    breaths: list[bool] = field(default_factory=list)

    def lease_count(self) -> int:
        return self.holding

    count_unfinished = lease_count

    def pause_intake(self, *, on: bool) -> None:
        self.breaths.append(on)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ecs, "POLL_S", 0.005)
    monkeypatch.setattr(ecs, "IDLE_S", 0.03)


@asynccontextmanager
async def protecting(workload: Workload, url: str) -> AsyncIterator[asyncio.Task[None]]:
    guard = Protection(url, workload, workload.log, ProtectionPolicy(900.0))
    running = asyncio.create_task(guard.run(workload.stop))
    yield running
    workload.stop.set()
    await running


def change(*, on: bool) -> dict[str, Any]:
    return {"ProtectionEnabled": on} | ({"ExpiresInMinutes": MINUTES} if on else {})


async def test_a_task_is_protected_while_it_has_work() -> None:
    workload = Workload()
    async with agent() as stub, protecting(workload, f"{stub.url}/api/c1"):
        workload.holding = 3
        await until(lambda: stub.asked)
        assert [change(on=True)] == stub.asked
        workload.holding = 0
        await until(lambda: len(stub.asked) == 2)
        assert [change(on=True), change(on=False)] == stub.asked
    assert [True, False] == stub.wishes


async def test_a_stopping_worker_ends_its_protection_at_once() -> None:
    workload = Workload(holding=1)
    async with agent() as stub:
        async with protecting(workload, f"{stub.url}/api/c1"):
            await until(lambda: stub.asked)
        assert [True, False] == stub.wishes
    assert ["ecs.protection", "ecs.protection"] == workload.log.names()


async def test_an_idle_worker_asks_for_nothing_not_even_at_its_end() -> None:
    workload = Workload()
    async with agent() as stub:
        async with protecting(workload, f"{stub.url}/api/c1"):
            await asyncio.sleep(0.03)
        assert [] == stub.asked


@pytest.mark.parametrize(
    ("status", "answer", "reason"),
    [
        (400, THROTTLED, "ThrottlingException"),
        (200, INVALID, "TASK_NOT_VALID"),
        (500, {}, "HTTP 500"),
        (200, [], "the answer is not an object"),
    ],
)
async def test_a_refusal_is_logged_once_with_its_reason(
    status: int, answer: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ecs, "MAX_RETRY_DELAY_S", 0.005)
    workload = Workload(holding=1)
    async with agent() as stub:
        stub.status, stub.answer = status, answer
        async with protecting(workload, f"{stub.url}/api/c1"):
            await until(lambda: len(stub.asked) >= 3)
        assert {True} == set(stub.wishes)
    refusal_reason = ("ecs.refused", {"about": "protection", "reason": reason})
    assert [refusal_reason] == workload.log.said


async def test_a_throttled_worker_is_protected_once_ecs_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ecs, "MAX_RETRY_DELAY_S", 0.005)
    workload = Workload(holding=1)
    async with agent() as stub:
        stub.status, well = 400, stub.answer
        stub.answer = THROTTLED
        async with protecting(workload, f"{stub.url}/api/c1"):
            await until(lambda: stub.asked)
            stub.status, stub.answer = 200, well
            await until(lambda: "ecs.protection" in workload.log.names())


async def test_an_agent_that_is_down_stops_nothing() -> None:
    workload = Workload(holding=1)
    async with agent() as gone:
        pass
    async with protecting(workload, f"{gone.url}/api/c1") as running:
        await until(lambda: workload.log.said)
        assert not running.done()
    assert "ecs.refused" == workload.log.names()[0]


async def test_outside_of_ecs_it_is_over_before_it_begins() -> None:
    workload = Workload(holding=1)
    async with protecting(workload, "") as running:
        await running
    assert [] == workload.log.said
    assert True not in workload.breaths
