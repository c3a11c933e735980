"""Chunks of some seconds, so that a cancel meets running and waiting ones."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from piecework import pipeline

TAKES_S = 5.0


class Task(BaseModel):
    """A chunk: its number."""

    n: int


@pipeline
async def waiting(task: Task) -> int:
    """Wait for some seconds; pay for nothing."""
    await asyncio.sleep(TAKES_S)
    return task.n
