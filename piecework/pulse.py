"""Write down by when each loop of a process has to show up again, for a health check.

The check (`python -m workers.health`) reads that one file and needs nothing else, so
that it is quick. The moments are those of the machine's monotonic clock, which all
processes of a container share: a frozen process is found by those it did not move.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from piecework.telemetry import Log, emit

#: Seconds between two writings of the file, and the least that a loop is given.
EVERY_S = 1.0
LEAST_S = 3.0
#: Seconds that one request to AWS may take: four tries, and the waits between them.
#: An outage is no sickness of the process: a loop that is refused shows up, too.
REQUEST_S = 120.0
#: Seconds that the reconciler may take for one job, however large.
RECONCILE_S = 600.0


@dataclass(slots=True)
class Liveness:
    """By when each loop has to show up again, on the clock of the event loop."""

    due: dict[str, float] = field(default_factory=dict)

    def expect_within(self, loop: str, again_in: float) -> None:
        """Note that a loop is alive, and when it has to show up next."""
        now = asyncio.get_running_loop().time()
        self.due[loop] = now + max(again_in, LEAST_S)

    def suspend(self, loop: str) -> None:
        """Expect nothing of a loop for now: it waits for what may take for ever."""
        self.due.pop(loop, None)

    def expect_reconciler(self) -> None:
        """Note that the reconciler goes from one job to the next."""
        self.expect_within("reconciler", RECONCILE_S)


async def write_health_file(
    liveness: Liveness, file: str, again_in: float, log: Log
) -> None:
    """Keep the file fresh for ever; without a file there is nothing to do.

    Whoever blocks the event loop keeps this from being written, and so is found.
    """
    path, said = Path(file), False
    while file:
        liveness.expect_within("event loop", again_in)
        try:
            write(liveness, path)
        except OSError as error:
            if not said:
                emit(log, "health.unwritable", reason=f"{path}: {error.strerror}")
            said = True
        await asyncio.sleep(EVERY_S)


def write(liveness: Liveness, path: Path) -> None:
    """Replace the file in one step, so that no reader meets half of it."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    # A clock that is behind it has begun anew: the machine was restarted.
    at = asyncio.get_running_loop().time()
    told = {"pid": os.getpid(), "at": at, "due": liveness.due}
    try:
        fresh.write_text(json.dumps(told), "utf-8")
        fresh.replace(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
        raise
