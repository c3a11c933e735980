"""Agents of other frameworks, killed in each of their steps: `make frameworks`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from verification.frameworks.paid import STEPS, keys, started

ROOT = Path(__file__).parents[2]
FRAMEWORKS = ("langgraph", "openai_agents", "pydantic_ai")
PATIENCE_S = 300.0


def run(framework: str, folder: Path, killed_in: str = "") -> tuple[int, str]:
    """Run an agent in a process; return its end and its last line."""
    program = f"verification.frameworks.{framework}_agent"
    environment = {
        **os.environ,
        "AGENT_BOOK": str(folder / "book"),
        "AGENT_KILLED_IN": killed_in,
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-m", program, str(folder / "state")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    lines = (done.stdout or done.stderr).splitlines() or [""]
    return done.returncode, lines[-1]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_agent_that_no_one_kills_pays_for_each_step_once(
    framework: str, tmp_path: Path
) -> None:
    assert run(framework, tmp_path) == (0, "booked LH1 to Rome in 12A")
    assert started(tmp_path / "book") == Counter(STEPS)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_agent_that_is_killed_in_each_step_pays_again_only_for_that_step(
    framework: str, tmp_path: Path
) -> None:
    # The first run has its stage in its own process, the others in a child.
    for step in STEPS:
        assert run(framework, tmp_path, killed_in=step)[0] == -signal.SIGKILL
    assert run(framework, tmp_path) == (0, "booked LH1 to Rome in 12A")

    assert started(tmp_path / "book") == Counter([*STEPS, *STEPS])
    assert len(keys(tmp_path / "book", "book")) == 1
