"""What an ECS task can learn of itself: its name, and whether ECS is ending it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from piecework import telemetry
from workers.ecs.agent import AgentError, request

METADATA = "ECS_CONTAINER_METADATA_URI_V4"
#: Of a task's id, enough to find it by and to have it to oneself.
TASK_ID_CHARS = 12
ID = re.compile(r"[0-9a-zA-Z-]{1,64}")


@dataclass(frozen=True, slots=True)
class Task:
    """A task, as ECS knows it.

    Attributes:
        desired_status: What ECS wants of it: RUNNING, or STOPPED once it ends it.
    """

    id: str
    zone: str
    desired_status: str


async def current_task(metadata: str, log: telemetry.Log) -> Task | None:
    """Return the task that this process runs in; None: it runs in none, or who knows.

    `metadata` is where the agent tells of it; empty where there is no ECS.
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
    """Name a worker as people look for it: by its task, else by its machine."""
    return f"{task.id[:TASK_ID_CHARS] if task else host}-{pid}"
