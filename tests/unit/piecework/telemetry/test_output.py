"""A log that cannot be written stops no work."""

from __future__ import annotations

import subprocess
import sys

import pytest

WRITES = """
import logging, os, structlog, sys
from piecework import telemetry
telemetry.tolerate_output()
telemetry.configure("info")
for _ in range(3):
    telemetry.emit(structlog.get_logger(), "worker.stopped")
    logging.getLogger("library").warning("a library")
    print("a stage", flush=True)
    print("a stage", file=sys.stderr)
    sys.stdout.write("x" * 100_000)
os._exit(3)
"""


@pytest.mark.parametrize("shell", [">&- 2>&-", ">/dev/full 2>/dev/full", "2>&1 | :"])
def test_what_cannot_be_written_is_dropped(shell: str) -> None:
    code = f"{sys.executable} -c '{WRITES}' {shell}"
    ends = "exit ${PIPESTATUS[0]}"
    done = subprocess.run(
        ["/bin/bash", "-c", f"{code}; {ends}"], check=False, timeout=60
    )
    assert 3 == done.returncode


def test_a_stream_that_works_gets_each_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITES], check=False, capture_output=True, text=True
    )
    assert 3 == done.stderr.count("worker.stopped")
    assert 300_000 == done.stdout.count("x")
