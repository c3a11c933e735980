"""The health check finds overdue loops and reports them in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from piecework_worker.health import describe_overdue, find_problem, main

NOW = 5000.0
STANDARD = sys.stdlib_module_names


@pytest.mark.parametrize(
    ("due", "said"),
    [
        ({}, ""),
        ({"event loop": NOW, "lease renewal": NOW + 1}, ""),
        (
            {"event loop": NOW - 2.5, "lease renewal": NOW + 1},
            "event loop is 2.5 s overdue",
        ),
        (
            {"cancel poll": NOW - 1, "event loop": NOW - 9},
            "event loop is 9.0 s overdue, cancel poll is 1.0 s overdue",
        ),
    ],
)
def test_overdue_loops_are_named_the_longest_overdue_first(
    due: dict[str, float], said: str
) -> None:
    assert said == describe_overdue(due, NOW)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "was not written yet"),
        ("", "cannot be read: JSONDecodeError"),
        ("[]", "cannot be read: AttributeError"),
        ("{}", "cannot be read: KeyError"),
        ('{"due": [1]}', "cannot be read: AttributeError"),
        ('{"due": {"lease renewal": "late"}}', "cannot be read: TypeError"),
    ],
)
def test_an_unusable_health_file_is_unhealthy(
    content: str | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "health"
    if content is not None:
        path.write_text(content)

    assert f"{path} {said}" == find_problem(str(path), NOW)


def test_a_process_without_a_health_file_is_not_called_healthy() -> None:
    assert "PIECEWORK_HEALTH_FILE names no file" == find_problem("", NOW)


@pytest.mark.parametrize(
    ("at", "code", "said"),
    [(float("inf"), 0, "healthy\n"), (0.0, 1, "unhealthy: lease renewal is ")],
)
def test_the_exit_code_says_it_to_a_container_engine(
    at: float,
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "health"
    path.write_text(json.dumps({"due": {"lease renewal": at}}))
    monkeypatch.setenv("PIECEWORK_HEALTH_FILE", str(path))

    assert code == main()
    assert capsys.readouterr().out.startswith(said)


def test_the_check_loads_the_standard_library_alone() -> None:
    program = "import sys, piecework_worker.health"
    bare, loaded = modules_of("import sys"), modules_of(program)
    outside = {n for n in loaded - bare if n.split(".")[0] not in STANDARD}

    assert {"piecework_worker", "piecework_worker.health"} == outside


def modules_of(program: str) -> set[str]:
    program = f"{program}; print(*sys.modules)"
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    return set(done.stdout.split())
