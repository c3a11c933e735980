from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.demo import children
from orchestrator.demo.children import Child
from orchestrator.demo.failure import StoryError


@pytest.fixture
def failing(tmp_path: Path) -> Iterator[Child]:
    environment = {"PATH": os.environ["PATH"]}
    child = children.start(
        "w1", ["no_such_module"], environment, tmp_path / "log", listen=True
    )
    yield child
    children.end([child])


async def test_a_child_that_ends_too_early_is_told_with_the_end_of_its_log(
    failing: Child,
) -> None:
    with pytest.raises(StoryError, match="No module named no_such_module"):
        await failing.first_line()


def test_ending_leaves_no_process_and_may_be_done_twice(failing: Child) -> None:
    children.end([failing])
    children.end([failing])

    assert not failing.alive
    with pytest.raises(ProcessLookupError):
        os.kill(failing.pid, 0)
