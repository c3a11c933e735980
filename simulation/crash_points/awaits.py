"""Where in the code a process stands that is about to take a step of its loop."""

from __future__ import annotations

import asyncio
from pathlib import PurePath
from types import FrameType
from typing import Any

from simulation.callbacks import Callback

#: The folders whose awaits are told apart.
TRACKED_FOLDERS = frozenset({"piecework", "workers", "crash_points"})


def await_path(handle: Callback) -> str:
    """Return the await at which a step goes on, with all that wait for it.

    As `undertake.py:84/saga.py:61/table.py:97`; where no task goes on, what is called.
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
    """Return the frames of a coroutine and of those that it waits for, in their order.

    What an async generator waits for cannot be seen from outside.
    """
    frames = []
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        frames.append(frame)
        waiting = waiting.cr_await
    return frames


def frame_path(frame: FrameType) -> tuple[PurePath, int]:
    """Return the file that a frame runs, and the line where it stands."""
    return PurePath(frame.f_code.co_filename), frame.f_lineno
