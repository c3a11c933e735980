"""What runs beside a worker ends after it, and its last words are not cut off."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from piecework.errors import StoreError
from piecework.settings import Settings
from piecework_worker import report
from piecework_worker.cores import METADATA
from piecework_worker.ecs import AGENT
from piecework_worker.process import run_side_tasks
from piecework_worker.stopping import Stop
from tests.unit.workers.ecs_stub import Agent, agent, until
from tests.unit.workers.on_the_model import worker_services


class Reports:
    """A table that takes the worker's reports after some failures."""

    def __init__(self) -> None:
        self.failures = 0
        self.written: list[dict[str, Any]] = []

    def item_write(self, *_: str, **parts: Any) -> dict[str, Any]:
        values: dict[str, Any] = parts["values"]
        return values

    async def update(self, values: dict[str, Any], returning: str) -> None:
        self.failures -= 1
        if self.failures >= 0:
            raise StoreError("Later.", code="aws.endpoint.timeout")
        self.written.append(values)


class HeldChunk:
    """A worker that holds one chunk."""

    def __init__(self) -> None:
        self.table = Reports()
        self.services: Any = worker_services(table=self.table)
        self.services.intake.pipelines = {"p": None}
        self.services.calls.breakers.called.update({"mail", "fax"})

    def lease_count(self) -> int:
        return 1

    def count_unfinished(self) -> int:
        return 1

    def pause_intake(self, *, on: bool) -> None:
        pass


def environ(stub: Agent) -> dict[str, str]:
    return {AGENT: f"{stub.url}/api/c1", METADATA: f"{stub.url}/v4/c1"}


async def test_a_stopping_worker_gives_its_protection_back_before_it_ends() -> None:
    worker: Any = HeldChunk()
    stop = Stop()
    async with agent() as stub:
        async with run_side_tasks(worker, stop, environ(stub)):
            await until(lambda: stub.asked)
        assert [True, False] == stub.wishes
    assert stop.is_set()


async def test_a_worker_logs_the_signal_and_the_state_of_its_task_at_the_end() -> None:
    worker: Any = HeldChunk()
    stop = Stop()
    async with agent() as stub:
        stub.task["DesiredStatus"] = "STOPPED"
        async with run_side_tasks(worker, stop, environ(stub)):
            await until(lambda: stub.asked)
            stop.signal = "SIGTERM"
            stop.set()
    said = {"signal": "SIGTERM", "desired_status": "STOPPED"}
    assert ("worker.signalled", said) in worker.services.log.said


async def test_last_words_are_said_when_the_worker_fails_too() -> None:
    worker: Any = HeldChunk()

    async def fail(stub: Agent) -> None:
        async with run_side_tasks(worker, Stop(), environ(stub)):
            await until(lambda: stub.asked)
            message = "a loop has ended"
            raise ValueError(message)

    async with agent() as stub:
        with pytest.raises(ValueError, match="a loop has ended"):
            await fail(stub)
        assert [True, False] == stub.wishes


async def test_a_side_task_that_fails_is_logged_and_stops_nothing(
    tmp_path: Path,
) -> None:
    worker: Any = HeldChunk()
    worker.services.liveness = None
    settings = Settings(health_file=str(tmp_path / "health"))
    worker.services.rt = replace(worker.services.rt, settings=settings)
    async with run_side_tasks(worker, Stop(), {}):
        await asyncio.sleep(0)
    assert ["worker.component_failed"] == worker.services.log.names()


async def test_a_worker_reports_what_it_runs_and_then_that_it_stopped() -> None:
    worker: Any = HeldChunk()
    async with run_side_tasks(worker, Stop(), {}):
        await until(lambda: worker.table.written)
    first, last = worker.table.written
    assert (["p"], 16, 1) == (
        first["pipelines"],
        first["max_chunks"],
        first["in_progress"],
    )
    assert ["fax", "mail"] == first["dependencies"]
    assert first["reported_at"] < first["due_at"]
    assert {"now"} == last.keys()


async def test_a_failed_report_is_repeated_at_the_next_poll(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(report, "POLL_S", 0.01)
    worker: Any = HeldChunk()
    worker.table.failures = 2
    async with run_side_tasks(worker, Stop(), {}):
        await until(lambda: worker.table.written)
    assert ["worker.report_failed"] * 2 == worker.services.log.names()
