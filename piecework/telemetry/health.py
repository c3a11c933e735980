"""Write the health file: the time by which each loop of a process must report next.

The health check (`python -m piecework_worker.health`) reads only this file, so it is
fast. The times are those of the monotonic clock, which all processes of a container
share. The check detects a frozen process because its times pass.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from piecework.telemetry import Log, emit

#: Seconds between two writes of the file, and the shortest time that a loop gets.
EVERY_S = 1.0
LEAST_S = 3.0
#: Seconds that one request to AWS may take: four attempts and the waits between them.
#: An outage of AWS does not make a process unhealthy: a refused loop reports, too.
REQUEST_S = 120.0
#: Seconds that the reconciler may take for one job of any size.
RECONCILE_S = 600.0


@dataclass(slots=True)
class Liveness:
    """The time by which each loop must report next, on the event loop's clock."""

    due: dict[str, float] = field(default_factory=dict)

    def expect_within(self, loop: str, again_in: float) -> None:
        """Record that a loop is alive, and that it reports again in so many seconds."""
        now = asyncio.get_running_loop().time()
        self.due[loop] = now + max(again_in, LEAST_S)

    def suspend(self, loop: str) -> None:
        """Expect no report of a loop for now: it waits without a time limit."""
        self.due.pop(loop, None)

    def expect_reconciler(self) -> None:
        """Record that the reconciler proceeds to its next job."""
        self.expect_within("reconciler", RECONCILE_S)


async def write_health_file(
    liveness: Liveness, file: str, again_in: float, log: Log
) -> None:
    """Write the file every second until cancelled; do nothing without a file name.

    Code that blocks the event loop stops these writes, so the check detects it.
    """
    path, emitted = Path(file), False
    while file:
        liveness.expect_within("event loop", again_in)
        try:
            write(liveness, path)
            emitted = False
        except OSError as error:
            if not emitted:
                emit(log, "health.unwritable", reason=f"{path}: {error.strerror}")
            emitted = True
        await asyncio.sleep(EVERY_S)


def write(liveness: Liveness, path: Path) -> None:
    """Replace the file atomically, so that no reader sees a part of it."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    # `at` tells the check whether the clock was restarted with the machine.
    at = asyncio.get_running_loop().time()
    content = {"pid": os.getpid(), "at": at, "due": liveness.due}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)  # it may have been removed
        fresh.write_text(json.dumps(content), "utf-8")
        fresh.replace(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
        raise
