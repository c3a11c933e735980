"""A worker's name, and what it logs when a signal stops it."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from piecework_worker.ecs import Task, current_task, worker_name
from piecework_worker.shutdown import log_signal
from piecework_worker.stopping import Stop, stop_on_signals
from tests.unit.piecework.fakes import Log
from tests.unit.workers.ecs_stub import ARN, TASK, agent


async def test_a_task_is_known_by_what_the_agent_says() -> None:
    async with agent() as stub:
        assert Task(TASK, "eu-west-1a", "RUNNING") == await current_task(
            f"{stub.url}/v4/c1", Log()
        )


@pytest.mark.parametrize(
    ("limits", "memory_mb", "cpus"),
    [
        ({"CPU": 0.5, "Memory": 1024}, 1024, 0.5),
        ({"CPU": 2}, 0, 2.0),
        ("none", 0, 0.0),
    ],
)
async def test_the_memory_and_the_cores_of_a_task_are_what_the_agent_says(
    limits: Any, memory_mb: int, cpus: float
) -> None:
    async with agent() as stub:
        stub.task |= {"Limits": limits}
        task = await current_task(f"{stub.url}/v4/c1", Log())
    assert task is not None
    assert (memory_mb, cpus) == (task.memory_mb, task.cpus)


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({}, "no TaskARN"),
        ({"TaskARN": ""}, "no TaskARN"),
        ({"TaskARN": f"{ARN} rm -rf"}, "no TaskARN"),
        ({"TaskARN": "a" * 65}, "no TaskARN"),
        ([], "the answer is not an object"),
    ],
)
async def test_an_answer_without_a_task_is_logged_and_tolerated(
    told: Any, reason: str
) -> None:
    log = Log()
    async with agent() as stub:
        stub.task = told
        assert await current_task(f"{stub.url}/v4/c1", log) is None
    assert [("ecs.refused", {"about": "metadata", "reason": reason})] == log.said


IMAGE = f"sha256:{'1f0c' * 16}"


@pytest.mark.parametrize(
    ("containers", "image"),
    [
        ([{"ImageID": IMAGE}], IMAGE),
        ([{"ImageID": IMAGE, "Type": "NORMAL"}] * 2, IMAGE),
        ([{"ImageID": IMAGE}, {"ImageID": "p", "Type": "CNI_PAUSE"}], IMAGE),
        # A sidecar: which of the images is the worker's is not told.
        ([{"ImageID": IMAGE}, {"ImageID": f"{IMAGE[:-1]}d"}], ""),
        ([{}], ""),
        (["odd"], ""),
        ({}, ""),
        (None, ""),
    ],
)
async def test_the_code_version_of_a_task_is_its_only_image(
    containers: Any, image: str
) -> None:
    async with agent() as stub:
        stub.task["Containers"] = containers
        task = await current_task(f"{stub.url}/v4/c1", Log())
    assert task is not None
    assert image == task.image


async def test_outside_of_ecs_no_agent_is_called() -> None:
    log = Log()
    assert await current_task("", log) is None
    assert [] == log.said


@pytest.mark.parametrize(
    ("task", "parent", "name"),
    [
        (Task(TASK, "", ""), 0, "158d1c8083dd-7"),
        (None, 0, "machine-7"),
        (None, 5, "machine-5+7"),
    ],
)
def test_a_worker_has_the_name_of_its_task_else_of_its_machine(
    task: Task | None, parent: int, name: str
) -> None:
    assert name == worker_name(task, "machine", 7, parent)


async def test_a_signal_is_logged_with_the_desired_status_of_the_task() -> None:
    log = Log()
    signals = stop_on_signals(log)
    stop = signals.stop
    async with agent() as stub:
        stub.task["DesiredStatus"] = "STOPPED"
        os.kill(os.getpid(), signal.SIGTERM)
        await log_signal(stop, f"{stub.url}/v4/c1", log)
    signals.close()

    said = {"signal": "SIGTERM", "desired_status": "STOPPED"}
    assert [("worker.signalled", said)] == log.said


async def test_a_stop_of_our_own_is_no_signal() -> None:
    stop, log = Stop(), Log()
    stop.set()
    await log_signal(stop, "", log)
    assert [] == log.said
