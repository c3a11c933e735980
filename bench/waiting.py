"""Wait for workers to be ready, tasks to be done, and jobs to end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.environment import Adapter, BenchEnvironment
from bench.processes import FailedError, Group, wait_until

#: Seconds between two polls of the ledger or of a job.
POLL_S = 0.02
#: Maximum seconds without progress: to the first task, or to another one.
PROGRESS_TIMEOUT_S = 60.0
#: Maximum seconds until a job has ended; the largest has 100,000 chunks.
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
    wait_while_alive(adapter.ready, groups, "No worker became ready in time.")


def wait_until_begun(env: BenchEnvironment, groups: list[Group]) -> None:
    """Wait until the first task has started."""
    wait_while_alive(
        lambda: env.ledger.poll().first_start, groups, "No task started in time."
    )


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
    """Wait until `n` tasks are done, or until no progress is made."""
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
    """Wait until the work is recorded; return the time of that observation."""
    if not wait_until(adapter.settled, SETTLE_TIMEOUT_S, every_s=every_s):
        raise FailedError("The work was not recorded in time.")
    return time.monotonic()
