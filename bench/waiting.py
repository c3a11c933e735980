"""What a run waits for: workers that are ready, tasks that are done, an end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.processes import FailedError, Group, wait_until
from bench.stand import Adapter, BenchEnvironment

#: Seconds between two looks at the ledger, or at a job.
POLL_S = 0.02
#: Seconds that a run may take to go on: to begin, to do another task.
PROGRESS_TIMEOUT_S = 60.0
#: Seconds that the end of a job may take, the largest with 100,000 chunks.
SETTLE_TIMEOUT_S = 300.0


@contextmanager
def run_workers(adapter: Adapter, workers: int = 1) -> Iterator[list[Group]]:
    """Have workers as long as this lasts."""
    groups = [adapter.work() for _ in range(workers)]
    try:
        yield groups
    finally:
        for group in groups:
            group.stop()


def wait_until_ready(adapter: Adapter, groups: list[Group]) -> None:
    """Wait until a worker consumes."""
    wait_while_alive(adapter.ready, groups, "no worker was ready")


def wait_until_begun(env: BenchEnvironment, groups: list[Group]) -> None:
    """Wait until the first task was begun."""
    wait_while_alive(lambda: env.ledger.poll().first_start, groups, "no task was begun")


def wait_while_alive(
    condition: Callable[[], object], groups: list[Group], otherwise: str
) -> None:
    """Wait for something that living workers bring about."""

    def has() -> bool:
        for group in groups:
            group.check()
        return bool(condition())

    if not wait_until(has, PROGRESS_TIMEOUT_S, every_s=POLL_S):
        raise FailedError(otherwise)


def wait_until_done(env: BenchEnvironment, groups: list[Group], n: int) -> None:
    """Wait until so many tasks were done, or none has been for long."""
    seen = -1
    while count_done(env, groups) > seen:
        seen = count_done(env, groups)
        if wait_until(
            lambda: count_done(env, groups) >= n, PROGRESS_TIMEOUT_S, every_s=POLL_S
        ):
            return


def count_done(env: BenchEnvironment, groups: list[Group]) -> int:
    """Return how many tasks were done; fail when a worker has ended by itself."""
    for group in groups:
        group.check()
    return len(env.ledger.poll().dones)


def wait_until_settled(adapter: Adapter, every_s: float = POLL_S) -> float:
    """Wait until what was done is written down; return when that was seen."""
    if not wait_until(adapter.settled, SETTLE_TIMEOUT_S, every_s=every_s):
        raise FailedError("it has not settled")
    return time.monotonic()
