"""An embedded AWS for a program or a module of tests that needs one of its own."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from piecework.aws.endpoint import Emulator
from piecework_orchestrator.embedded import environment, server


@contextmanager
def own_emulator(
    services: str = server.SERVICES, region: str = "us-east-1"
) -> Iterator[Emulator]:
    """Run one in a folder that goes with it."""
    with tempfile.TemporaryDirectory(prefix="emulator-") as folder:
        python = environment.ensure_environment(report=say)
        running = server.start(python, Path(folder), region, services=services)
        try:
            yield running
        finally:
            server.stop(running.pid, Path(folder))


def say(line: str) -> None:
    """Print progress away from the results."""
    sys.stderr.write(f"{line}\n")
