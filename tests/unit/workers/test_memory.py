from __future__ import annotations

import asyncio
import resource
from pathlib import Path

import pytest

from piecework_worker.isolation.process import (
    MEGABYTE,
    SIZE,
    memory_limit,
    memory_used,
)
from piecework_worker.shutdown import (
    MEMORY_LIMIT_EXIT_CODE,
    stop_at_memory_limit,
    stop_limit_mb,
)
from piecework_worker.stopping import Stop
from tests.unit.piecework.fakes import Log
from tests.unit.workers.virtual_leases import time, virtually


@virtually
async def test_a_worker_at_its_memory_limit_stops_and_logs_it() -> None:
    stop, log = Stop(), Log()
    sizes = iter([100, 200, 201])
    began_at = time()

    await stop_at_memory_limit(200, stop, log, lambda: next(sizes) * MEGABYTE)  # type: ignore[arg-type]

    assert MEMORY_LIMIT_EXIT_CODE == stop.code
    assert stop.is_set()
    assert [("worker.memory_limit", {"memory_mb": 201, "limit_mb": 200})] == log.said
    assert 2.0 == time() - began_at


@pytest.mark.parametrize(
    ("set_mb", "task_mb", "cgroups", "stops_at"),
    [
        (500, 1024, ["1073741824"], 500),
        (0, 1024, [], 768),
        (0, 4096, ["max"], 3072),
        (0, 0, ["1073741824"], 768),
        # A container may have less than its task.
        (0, 2048, ["536870912"], 384),
        # cgroup 1 without a limit.
        (0, 0, ["9223372036854771712"], 0),
        (0, 0, ["max"], 0),
        (0, 0, [], 0),
    ],
)
def test_a_worker_stops_at_a_share_of_the_memory_that_it_has(
    tmp_path: Path, set_mb: int, task_mb: int, cgroups: list[str], stops_at: int
) -> None:
    files = [tmp_path / "absent"]
    for number, text in enumerate(cgroups):
        files.append(tmp_path / str(number))
        files[-1].write_text(f"{text}\n")
    assert stops_at == stop_limit_mb(set_mb, task_mb, files)
    shared = stop_limit_mb(set_mb, task_mb, files, share=2)
    assert shared == (set_mb or stops_at // 2)  # the setting is of one process


@virtually
async def test_a_worker_that_receives_a_stop_exits_with_0() -> None:
    stop, log = Stop(), Log()
    asyncio.get_running_loop().call_later(3.5, stop.set)

    await stop_at_memory_limit(200, stop, log, lambda: 0)  # type: ignore[arg-type]
    assert 0 == stop.code
    assert [] == log.said


@virtually
async def test_without_a_limit_memory_is_not_measured() -> None:
    stop, log = Stop(), Log()
    asyncio.get_running_loop().call_later(3.5, stop.set)

    def read_memory() -> int:
        raise AssertionError

    await stop_at_memory_limit(0, stop, log, read_memory)  # type: ignore[arg-type]
    assert 0 == stop.code


def test_what_would_take_more_than_is_allowed_is_a_memory_error() -> None:
    with pytest.raises(MemoryError), memory_limit(50):
        bytearray(200 * MEGABYTE)


def test_the_limit_ends_with_the_stage() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    with memory_limit(50):
        inside = resource.getrlimit(resource.RLIMIT_AS)

    assert before == resource.getrlimit(resource.RLIMIT_AS)
    assert inside[0] != before[0]


def test_a_limit_from_outside_is_not_lifted() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    spec = memory_used(SIZE) + 100 * MEGABYTE
    resource.setrlimit(resource.RLIMIT_AS, (spec, hard))
    try:
        with memory_limit(1000):
            inside = resource.getrlimit(resource.RLIMIT_AS)[0]
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))

    assert spec == inside
