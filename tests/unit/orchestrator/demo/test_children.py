from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from piecework_orchestrator.demo import processes
from piecework_orchestrator.demo.processes import ChildProcess, DemoError


@pytest.fixture
def failing(tmp_path: Path) -> Iterator[ChildProcess]:
    environment = {"PATH": os.environ["PATH"]}
    child = processes.start_process(
        "w1", ["no_such_module"], environment, tmp_path / "log", listen=True
    )
    yield child
    processes.kill_all([child])


async def test_a_child_that_exits_early_is_reported_with_the_end_of_its_log(
    failing: ChildProcess,
) -> None:
    with pytest.raises(DemoError, match="No module named no_such_module"):
        await failing.read_first_line()


def test_killing_twice_leaves_no_process(failing: ChildProcess) -> None:
    processes.kill_all([failing])
    processes.kill_all([failing])

    assert not failing.alive
    with pytest.raises(ProcessLookupError):
        os.kill(failing.pid, 0)
