"""`piecework run` and `init` in this process: their imports are done once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from piecework_orchestrator.cli.run import run_async
from piecework_simulation import run_command
from piecework_worker.stopping import SignalThread, stop_on_signals
from tests.unit.orchestrator.cli.conftest import RUNNER

Run = Callable[..., Any]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in an empty folder; forget the modules that were loaded from it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or "/"
        if Path(file).is_relative_to(tmp_path):
            del sys.modules[name]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run `piecework run` as a process would, but for its signals and its end."""
    receiving: list[SignalThread] = []

    def watched(*how: Any) -> SignalThread:
        receiving.append(stop_on_signals(*how))
        return receiving[-1]

    def ended(*how: Any, end: object, **options: Any) -> None:
        del end
        run_async(*how, **options)

    monkeypatch.setattr(run_command, "stop_on_signals", watched)
    monkeypatch.setattr(run_command, "run_async", ended)
    yield lambda *words: RUNNER.invoke(run_command.app, words)
    for each in receiving:
        each.close()
