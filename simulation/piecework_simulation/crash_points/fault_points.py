"""Every external call of a run, and every step; and the one at which a process dies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath
from types import FrameType
from typing import Any

from piecework.domain.states import ChunkStatus
from piecework_simulation.engine.callbacks import Callback
from piecework_simulation.engine.network import Exchange
from piecework_simulation.engine.process import Process, context_of
from piecework_simulation.engine.world import World
from piecework_simulation.invariants.checker import Invariants

#: Begins the name of a point that is a step of a loop, after that of its process.
STEP = "step "


class Mode(StrEnum):
    """The moment of a fault.

    Attributes:
        BEFORE: The process dies before the request is sent.
        APPLIED: The request is executed, and the process dies before the reply arrives.
        LOST: The request is executed and the reply is lost; the process goes on.
        AFTER: The process dies as soon as it has received the reply.
    """

    BEFORE = "before"
    APPLIED = "applied"
    LOST = "lost"
    AFTER = "after"


@dataclass(slots=True)
class FaultPoint:
    """One external call, or one step of a process's loop.

    Attributes:
        name: The process and the call.
        modes: The possible faults; a poll that is open at the end is never answered.
    """

    name: str
    modes: list[Mode] = field(default_factory=lambda: [Mode.BEFORE])


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """A point and a fault mode."""

    point: int
    mode: Mode


@dataclass(slots=True)
class FaultInjector:
    """Counts the calls of a world, and injects a fault at one of them.

    Attributes:
        fault: The fault to inject, if any.
        on_point: Called before each call.
        failed_process: The process, once the fault has happened.
        stages_at_fault: The stages of the chunks that this process then owned.
        counting: False once the run has ended.
    """

    world: World
    invariants: Invariants
    fault: InjectedFault | None = None
    on_point: Callable[[FaultInjector, int], None] = lambda *_: None
    points: list[FaultPoint] = field(default_factory=list)
    failed_process: Process | None = None
    stages_at_fault: dict[int, str] = field(default_factory=dict)
    counting: bool = True
    _numbers: dict[asyncio.Future[object], int] = field(default_factory=dict)

    def on_exchange(self, event: str, exchange: Exchange) -> None:
        """Follow a request to AWS through its events."""
        process = exchange.client.process
        if event == "asked":
            number = self.count_call(process, exchange.operation)
            if number is None:
                return
            self._numbers[exchange.answer] = number
            if self.loses_reply(number):
                exchange.fault = "request.reply_lost"
            return
        known = self._numbers.get(exchange.answer)
        if event == "applied":
            self.on_applied(known, process)
        else:
            self.on_answered(known, process)

    def count_call(self, process: Process, name: str) -> int | None:
        """Count a call; return its number. Its process may be dead now."""
        if not self.counting:
            return None
        number = len(self.points)
        self.points.append(FaultPoint(f"{process.name} {name}"))
        self.on_point(self, number)
        self._apply_fault(number, Mode.BEFORE, process)
        return number

    def follow_steps(self, process: Process) -> None:
        """Count each step of a process's loop, too: it can die at any `await`."""
        self.world.loop.on_fuse_end = self._steps
        process.fuse = 1

    def _steps(self, process: Process) -> None:
        """Count the next step of a process; set its fuse for the step after it."""
        if not self.counting or self.failed_process:
            return
        self.count_call(process, f"{STEP}{await_path(process.ready[0])}")
        if not process.dead:
            process.fuse = 2

    def loses_reply(self, number: int | None) -> bool:
        """Return whether the reply to a call is lost while its process goes on."""
        return number is not None and self.fault == InjectedFault(number, Mode.LOST)

    def on_applied(self, number: int | None, process: Process) -> None:
        """Learn that a call was carried out."""
        if number is not None:
            self._add_modes(number, Mode.APPLIED, Mode.LOST)
            self._apply_fault(number, Mode.APPLIED, process)
            self._apply_fault(number, Mode.LOST, process)

    def on_answered(self, number: int | None, process: Process) -> None:
        """Learn that a process has the reply, or does not wait for it any more."""
        if number is not None:
            self._add_modes(number, Mode.AFTER)
            self._apply_fault(number, Mode.AFTER, process)

    def _add_modes(self, number: int, *modes: Mode) -> None:
        if self.counting:
            known = self.points[number].modes
            known += [mode for mode in modes if mode not in known]

    def _apply_fault(self, number: int, mode: Mode, process: Process) -> None:
        """Inject the fault, if this is its point and mode."""
        if (
            self.fault != InjectedFault(number, mode)
            or self.failed_process
            or process.dead
        ):
            return
        self.failed_process = process
        self.stages_at_fault = self._claimed_stages(process)
        self.world.note(process, f"FAULT {mode} at {self.points[number].name}", None)
        if mode is Mode.AFTER:
            # The task that awaits the reply first continues to its next `await`.
            loop, context = self.world.loop, context_of(process)
            loop.call_soon(self._kill, process, context=context)
        elif mode is not Mode.LOST:
            self._kill(process)

    def _claimed_stages(self, process: Process) -> dict[int, str]:
        """Return the chunks that a process owns, with their stages."""
        return {
            number: str(checker.item.get("stage"))
            for checkers in self.invariants.chunks.values()
            for number, checker in checkers.items()
            if checker.item["status"] == ChunkStatus.RUNNING
            and checker.item.get("claimed_by") == process.name
        }

    def _kill(self, process: Process) -> None:
        self.world.kill(process)


# ── locate the `await` at which a process is about to continue ────────────────

#: The folders whose awaits are distinguished.
TRACKED_FOLDERS = frozenset({"piecework", "piecework_worker", "crash_points"})


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
