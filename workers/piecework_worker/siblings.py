"""What the processes of one worker know of each other, by way of their parent.

Each process claims, renews and settles chunks as a worker of its own. The first one
does once what the worker does once: it reports, reconciles, and protects the ECS task.
So it must know what the others do. A worker of one process has no siblings.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

#: Seconds between two messages to the parent, and from it.
EVERY_S: Final = 0.5
#: Bytes that are read at once.
PIECE: Final = 65_536


@dataclass(slots=True)
class Siblings:
    """One of the processes of a worker, and the sums of what the others said last.

    Attributes:
        number: Which one this is, from 1.
        count: The processes of the worker.
        parent: The id of their parent; 0: there is none.
        in_progress: The chunks of the others.
        unfinished: Their active tasks and receives, each of which may claim a chunk.
        called: The dependencies that they have called.
        pauses_intake: Whether the intake of the whole worker is paused.
    """

    number: int = 1
    count: int = 1
    parent: int = 0
    in_progress: int = 0
    unfinished: int = 0
    called: frozenset[str] = frozenset()
    pauses_intake: bool = False

    @property
    def is_first(self) -> bool:
        """Whether this process does what the worker does once."""
        return self.number == 1

    def adopt(self, told: dict[str, Any]) -> None:
        """Take the sums that the parent sent."""
        self.in_progress = told["in_progress"]
        self.unfinished = told["unfinished"]
        self.called = frozenset(told["called"])
        if not self.is_first:
            self.pauses_intake = told["pauses_intake"]


def sum_of(statuses: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the parent tells a process: the sums of what the others said."""
    return {
        "in_progress": sum(each["in_progress"] for each in statuses),
        "unfinished": sum(each["unfinished"] for each in statuses),
        "called": sorted({name for each in statuses for name in each["called"]}),
        "pauses_intake": any(each["pauses_intake"] for each in statuses),
    }


class Workload(Protocol):
    """What a worker says of its chunks; `piecework_worker.worker.Worker` is one."""

    def lease_count(self) -> int:
        """Return how many chunks it has claimed."""
        ...

    def count_unfinished(self) -> int:
        """Return its active tasks and receives, each of which may claim a chunk."""
        ...

    def pause_intake(self, *, on: bool) -> None:
        """Pause or resume the intake of new chunks."""
        ...


@dataclass(frozen=True, slots=True)
class WholeWorker:
    """The chunks and the intake of all processes, as the first one knows them."""

    own: Workload
    siblings: Siblings

    def lease_count(self) -> int:
        """Return how many chunks the processes have claimed."""
        return self.own.lease_count() + self.siblings.in_progress

    def count_unfinished(self) -> int:
        """Return their active tasks and receives, each of which may claim a chunk."""
        return self.own.count_unfinished() + self.siblings.unfinished

    def pause_intake(self, *, on: bool) -> None:
        """Pause or resume the intake of all processes; the others follow soon."""
        self.siblings.pauses_intake = on
        self.own.pause_intake(on=on)

    async def follow(self) -> None:
        """Pause and resume this process as the first one says, until cancelled."""
        while True:
            self.own.pause_intake(on=self.siblings.pauses_intake)
            await asyncio.sleep(EVERY_S)


# ── talk to the parent ────────────────────────────────────────────────────────


@dataclass(slots=True)
class Line:
    """The line from a process to its parent, served by a thread.

    A stage may block the event loop for ever. The end of the parent must stop such a
    process, too: nothing else would.

    Attributes:
        worker: What this process says; None: it is still starting, and says nothing.
        called: The dependencies that this process has called.
        is_stopping: Whether the process stops: a second signal would end it at once.
    """

    end: socket.socket
    siblings: Siblings
    worker: Workload | None = None
    called: set[str] = field(default_factory=set)
    is_stopping: Callable[[], bool] = lambda: False
    _rest: bytes = b""

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self.serve, name="siblings", daemon=True).start()

    def serve(self) -> None:
        """Tell and hear until the parent is gone; then stop as on SIGTERM."""
        with suppress(OSError):
            while self.hear():
                self.tell()
        if not self.is_stopping():
            os.kill(os.getpid(), signal.SIGTERM)

    def tell(self) -> None:
        """Send what this process does, once it works."""
        if self.worker is None:
            return
        status = {
            "in_progress": self.worker.lease_count(),
            "unfinished": self.worker.count_unfinished(),
            "called": sorted(self.called.copy()),
            "pauses_intake": self.siblings.is_first and self.siblings.pauses_intake,
        }
        self.end.sendall(json.dumps(status).encode() + b"\n")

    def hear(self) -> bool:
        """Wait for a message, or for a moment; return False if the parent is gone."""
        if not select.select([self.end], [], [], EVERY_S)[0]:
            return True
        piece = self.end.recv(PIECE)
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if lines:
            self.siblings.adopt(json.loads(lines[-1]))
        return bool(piece)
