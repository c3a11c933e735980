"""Read the metadata of this ECS task: its id, its zone, its desired status."""

from __future__ import annotations

import re
from dataclasses import dataclass

from piecework import telemetry
from workers.ecs.agent import AgentError, request

METADATA = "ECS_CONTAINER_METADATA_URI_V4"
#: Characters of a task's id in the worker's name: enough to be unique.
TASK_ID_CHARS = 12
ID = re.compile(r"[0-9a-zA-Z-]{1,64}")


@dataclass(frozen=True, slots=True)
class Task:
    """An ECS task.

    Attributes:
        desired_status: RUNNING, or STOPPED once ECS ends the task.
    """

    id: str
    zone: str
    desired_status: str


async def current_task(metadata: str, log: telemetry.Log) -> Task | None:
    """Return the task of this process; None without ECS or without an answer.

    `metadata` is the URL of the task's metadata; empty without ECS.
    """
    if not metadata:
        return None
    try:
        told = await request(f"{metadata}/task")
    except AgentError as error:
        telemetry.emit(log, "ecs.refused", about="metadata", reason=str(error))
        return None
    task = str(told.get("TaskARN", "")).rpartition("/")[2]
    if not ID.fullmatch(task):
        telemetry.emit(log, "ecs.refused", about="metadata", reason="no TaskARN")
        return None
    zone, desired = told.get("AvailabilityZone", ""), told.get("DesiredStatus", "")
    return Task(task, str(zone), str(desired))


def worker_name(task: Task | None, host: str, pid: int) -> str:
    """Return the worker's name: its task's id, or else its host, and its pid."""
    return f"{task.id[:TASK_ID_CHARS] if task else host}-{pid}"
