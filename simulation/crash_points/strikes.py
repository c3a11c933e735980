"""Every external call of a run, and every step; and the one at which a process dies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from piecework.model import ChunkStatus
from simulation.crash_points.awaits import place
from simulation.exchange import Exchange
from simulation.process import Process, context_of
from simulation.promises import Promises
from simulation.world import World

#: Begins the name of a point that is a step of a loop, after that of its process.
STEP = "step "


class Mode(StrEnum):
    """What befalls a call.

    Attributes:
        BEFORE: The process dies before it is sent.
        APPLIED: It is carried out, and the process dies before the reply is there.
        LOST: It is carried out and the reply is lost, but the process lives.
        AFTER: The process dies as soon as it has taken the reply.
    """

    BEFORE = "before"
    APPLIED = "applied"
    LOST = "lost"
    AFTER = "after"


@dataclass(slots=True)
class Point:
    """One external call, or one step of a process's loop.

    Attributes:
        name: Who made it, and what it was.
        modes: What can befall it: a poll that the end cut off is never answered.
    """

    name: str
    modes: list[Mode] = field(default_factory=lambda: [Mode.BEFORE])


@dataclass(frozen=True, slots=True)
class Strike:
    """What is struck, and how."""

    point: int
    mode: Mode


@dataclass(slots=True)
class Strikes:
    """Counts the calls of a world, and strikes at one of them.

    Attributes:
        strike: What is to be struck, if anything.
        on_point: Told of each call that is about to be made.
        struck: The process, once it has happened.
        at_work: The stages of the chunks that the process then had in hand.
        counting: False once the run is at its end.
    """

    world: World
    promises: Promises
    strike: Strike | None = None
    on_point: Callable[[Strikes, int], None] = lambda *_: None
    points: list[Point] = field(default_factory=list)
    struck: Process | None = None
    at_work: dict[int, str] = field(default_factory=dict)
    counting: bool = True
    _numbers: dict[asyncio.Future[object], int] = field(default_factory=dict)

    def on_exchange(self, event: str, exchange: Exchange) -> None:
        """Follow a request to AWS on its way."""
        process = exchange.client.process
        if event == "asked":
            number = self.asked(process, exchange.operation)
            if number is None:
                return
            self._numbers[exchange.answer] = number
            if self.loses(number):
                exchange.fault = "request.reply_lost"
            return
        known = self._numbers.get(exchange.answer)
        if event == "applied":
            self.applied(known, process)
        else:
            self.answered(known, process)

    def asked(self, process: Process, name: str) -> int | None:
        """Count a call; return its number. Its process may be dead now."""
        if not self.counting:
            return None
        number = len(self.points)
        self.points.append(Point(f"{process.name} {name}"))
        self.on_point(self, number)
        self._strike(number, Mode.BEFORE, process)
        return number

    def follow(self, process: Process) -> None:
        """Count each step of a process's loop, too: it can die at any `await`."""
        self.world.loop.blown = self._steps
        process.fuse = 1

    def _steps(self, process: Process) -> None:
        """Count a step that is about to be taken; light the fuse for the next one."""
        if not self.counting or self.struck:
            return
        self.asked(process, f"{STEP}{place(process.ready[0])}")
        if not process.dead:
            process.fuse = 2

    def loses(self, number: int | None) -> bool:
        """Say whether the reply to a call is lost, and its process lives."""
        return number is not None and self.strike == Strike(number, Mode.LOST)

    def applied(self, number: int | None, process: Process) -> None:
        """Learn that a call was carried out."""
        if number is not None:
            self._can(number, Mode.APPLIED, Mode.LOST)
            self._strike(number, Mode.APPLIED, process)
            self._strike(number, Mode.LOST, process)

    def answered(self, number: int | None, process: Process) -> None:
        """Learn that a process has the reply, or does not wait for it any more."""
        if number is not None:
            self._can(number, Mode.AFTER)
            self._strike(number, Mode.AFTER, process)

    def _can(self, number: int, *modes: Mode) -> None:
        if self.counting:
            known = self.points[number].modes
            known += [mode for mode in modes if mode not in known]

    def _strike(self, number: int, mode: Mode, process: Process) -> None:
        """Strike, if this is the moment."""
        if self.strike != Strike(number, mode) or self.struck or process.dead:
            return
        self.struck = process
        self.at_work = self._in_hand(process)
        self.world.note(process, f"STRUCK {mode} at {self.points[number].name}", None)
        if mode is Mode.AFTER:
            # Whoever waits for the reply goes on to its next `await` first.
            loop, context = self.world.loop, context_of(process)
            loop.call_soon(self._kill, process, context=context)
        elif mode is not Mode.LOST:
            self._kill(process)

    def _in_hand(self, process: Process) -> dict[int, str]:
        """Return the chunks that a process holds, and the stage that each is at."""
        return {
            number: str(book.item.get("stage"))
            for books in self.promises.chunks.values()
            for number, book in books.items()
            if book.item["status"] == ChunkStatus.RUNNING
            and book.item.get("claimed_by") == process.name
        }

    def _kill(self, process: Process) -> None:
        self.world.kill(process)
