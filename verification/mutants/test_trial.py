"""Try a mutant end to end: one that tests catch, and one that survives."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from verification.mutants.lane import snapshot

ROOT = Path(__file__).parents[2]
PATH, LOOKED_AT = (
    "piecework/calls/in_flight.py",
    "tests/unit/piecework/calls/test_in_flight.py",
)
GUARD = "`has_read_answer(end.error)` as False"
#: The same guard again, in a function without a test.
PLANTED = """

def planted_guard(end: Failed) -> str:
    return "ours" if has_read_answer(end.error) else "theirs"
"""


@pytest.mark.slow
def test_a_guard_that_tests_hold_is_caught_and_a_planted_one_survives(
    emulator_python: Path, tmp_path: Path
) -> None:
    repository = tmp_path / "repository"
    snapshot(ROOT, repository)
    with (repository / PATH).open("a") as source:
        source.write(PLANTED)
    command = [sys.executable, "-m", "verification.mutants", "--lanes", "1", "--narrow"]
    tried = subprocess.run(
        [*command, "--only", GUARD],
        cwd=repository,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    said = re.sub(r":\d+ ", " ", tried.stdout).splitlines()
    assert f"guard {PATH} planted_guard: {GUARD}: SURVIVED" in said, tried.stdout
    caught = f"guard {PATH} may_still_execute: {GUARD}: caught by {LOOKED_AT}::"
    assert any(line.startswith(caught) for line in said), tried.stdout
    assert "mutants=2 caught=1 equivalent=0 survived=1" == said[-1]
    assert 1 == tried.returncode
