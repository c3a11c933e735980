"""Locate the `await` at which a process is about to continue."""

from __future__ import annotations

import asyncio
from pathlib import PurePath
from types import FrameType
from typing import Any

from simulation.callbacks import Callback

#: The folders whose awaits are distinguished.
TRACKED_FOLDERS = frozenset({"piecework", "workers", "crash_points"})


def await_path(handle: Callback) -> str:
    """Return the await at which a step continues, with all its callers.

    For example `run.py:84/engine.py:61/table.py:97`. If no task continues, return the
    name of the callback.
    """
    callback: Any = handle.callback
    task = getattr(callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        return str(getattr(callback, "__qualname__", type(callback).__name__))
    places = [frame_path(frame) for frame in coroutine_frames(task.get_coro())]
    tracked = [
        (path, line)
        for path, line in places
        if TRACKED_FOLDERS & set(path.parent.parts)
    ]
    return "/".join(f"{path.name}:{line}" for path, line in tracked or places[-1:])


def coroutine_frames(waiting: Any) -> list[FrameType]:
    """Return the frames of a coroutine and of the coroutines that it awaits, in order.

    The frames that an async generator awaits are not visible.
    """
    frames = []
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        frames.append(frame)
        waiting = waiting.cr_await
    return frames


def frame_path(frame: FrameType) -> tuple[PurePath, int]:
    """Return the file and the line of a frame."""
    return PurePath(frame.f_code.co_filename), frame.f_lineno
