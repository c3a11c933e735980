"""What a run waits for: workers that are ready, tasks that are done, an end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.processes import FailedError, Group, until
from bench.stand import Contender, Stand

#: Seconds between two looks at the ledger, or at a job.
LOOK_S = 0.02
#: Seconds that a run may take to go on: to begin, to do another task.
PATIENCE_S = 60.0
#: Seconds that the end of a job may take, the largest with 100,000 chunks.
SETTLE_S = 300.0


@contextmanager
def working(contender: Contender, workers: int = 1) -> Iterator[list[Group]]:
    """Have workers as long as this lasts."""
    groups = [contender.work() for _ in range(workers)]
    try:
        yield groups
    finally:
        for group in groups:
            group.stop()


def ready(contender: Contender, groups: list[Group]) -> None:
    """Wait until a worker consumes."""
    wait(contender.ready, groups, "no worker was ready")


def begun(stand: Stand, groups: list[Group]) -> None:
    """Wait until the first task was begun."""
    wait(lambda: stand.ledger.look().first_start, groups, "no task was begun")


def wait(condition: Callable[[], object], groups: list[Group], otherwise: str) -> None:
    """Wait for something that living workers bring about."""

    def has() -> bool:
        for group in groups:
            group.check()
        return bool(condition())

    if not until(has, PATIENCE_S, every_s=LOOK_S):
        raise FailedError(otherwise)


def finished(stand: Stand, groups: list[Group], n: int) -> None:
    """Wait until so many tasks were done, or none has been for long."""
    seen = -1
    while done(stand, groups) > seen:
        seen = done(stand, groups)
        if until(lambda: done(stand, groups) >= n, PATIENCE_S, every_s=LOOK_S):
            return


def done(stand: Stand, groups: list[Group]) -> int:
    """Return how many tasks were done; fail when a worker has ended by itself."""
    for group in groups:
        group.check()
    return len(stand.ledger.look().dones)


def settled(contender: Contender, every_s: float = LOOK_S) -> float:
    """Wait until what was done is written down; return when that was seen."""
    if not until(contender.settled, SETTLE_S, every_s=every_s):
        raise FailedError("it has not settled")
    return time.monotonic()
