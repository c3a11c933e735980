"""The demo runs on this machine alone; `tests/infra/test_wheel.py` runs all of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(
    *options: str, folder: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "piecework_orchestrator", "demo", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def test_the_demo_refuses_an_endpoint_that_is_not_on_this_machine(
    tmp_path: Path,
) -> None:
    elsewhere = "https://sqs.eu-west-1.amazonaws.com"

    done = run(folder=tmp_path, AWS_ENDPOINT_URL=elsewhere)

    assert 2 == done.returncode
    assert "embedded.endpoint.not_loopback" in done.stderr
    assert [] == list(tmp_path.iterdir())
