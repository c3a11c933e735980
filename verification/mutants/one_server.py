"""Run a pytest plugin: tests use a running emulator, emptied between them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

from piecework.aws.endpoint import Emulator
from piecework_orchestrator.embedded import server

VARIABLE = "MUTANTS_EMULATOR"


def pytest_configure() -> None:
    running = Emulator(**json.loads(os.environ[VARIABLE]))
    url = f"{running.endpoint}/_ministack/reset"
    request = Request(url, method="POST")  # noqa: S310 -- our own loopback server
    build_opener(ProxyHandler({})).open(request, timeout=10).close()

    def start(python: Path, state_dir: Path, region: str) -> Emulator:
        return running

    def stop(pid: int, state_dir: Path) -> None:
        return None

    server.start = start  # type: ignore[assignment]
    server.stop = stop  # type: ignore[assignment]
