"""The demo as a newcomer runs it: every promise of its last lines is counted there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROMISED = re.compile(
    r"lost=0 duplicate_effects=0 calls_paid_twice=\d+ chunks=22 redriven=1"
)


def run(
    *options: str, folder: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "piecework_orchestrator.cli", "demo", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.usefixtures("emulator_python")
def test_the_demo_keeps_its_promises_and_leaves_nothing_running(tmp_path: Path) -> None:
    done = run("--seed", "5", "--out", "results", folder=tmp_path)

    lines = done.stdout.splitlines()
    assert (0, "") == (done.returncode, done.stderr), done.stdout
    assert PROMISED.fullmatch(lines[-1]), done.stdout
    told = [line.split()[0] for line in lines if line.strip()]
    for scene in ("doctor", "submit", "faults", "kill", "takeover", "dead", "redrive"):
        assert scene in told
    results = tmp_path / "results"
    certificate = json.loads((results / "certificate.json").read_text("utf-8"))
    assert "SUCCEEDED" == certificate["status"]
    assert {str(number) for number in range(22)} == set(certificate["results"])
    report = (results / "report.md").read_text("utf-8")
    assert "22 clauses reviewed.\n" in report
    assert (results / "report.html").stat().st_size > len(report)
    assert [] == list((tmp_path / ".piecework").iterdir())


def test_the_demo_refuses_an_endpoint_that_is_not_on_this_machine(
    tmp_path: Path,
) -> None:
    elsewhere = "https://sqs.eu-west-1.amazonaws.com"

    done = run(folder=tmp_path, AWS_ENDPOINT_URL=elsewhere)

    assert 2 == done.returncode
    assert "embedded.endpoint.not_loopback" in done.stderr
    assert [] == list(tmp_path.iterdir())
