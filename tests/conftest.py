"""Fixtures for every test: an AWS of its own, and unique names."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import structlog

from piecework.aws.endpoint import Emulator
from piecework.telemetry.emit import CONFIGURE_LATE
from piecework_orchestrator.embedded import deploy, environment, server
from piecework_orchestrator.embedded import server as state
from piecework_orchestrator.embedded.deploy import ACCESS_KEY

APP = "piecework"
NUMBERS = count(1)


@pytest.fixture(autouse=True)
def no_aws_of_the_developer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep a test from finding a real account, or an emulator of the developer."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "PIECEWORK_")) and name != "PIECEWORK_CACHE_DIR":
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-aws-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-aws-keys"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("PIECEWORK_STATE_DIR", str(tmp_path / ".piecework"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path.with_name(f"{tmp_path.name}-x")))


@pytest.fixture(autouse=True)
def no_log_of_an_earlier_test() -> Iterator[None]:
    """Reset the logs: a test may send them to a stream that it closes."""
    yield
    forget_logs()
    structlog.contextvars.clear_contextvars()


def forget_logs() -> None:
    """Undo `telemetry.configure`."""
    structlog.reset_defaults()
    CONFIGURE_LATE.clear()
    root = logging.getLogger()
    for handler in [h for h in root.handlers if h.get_name() == "piecework"]:
        root.removeHandler(handler)


@pytest.fixture(scope="session")
def emulator_python() -> Path:
    """Return the Python of the emulator's environment; it is made once per machine."""
    return environment.ensure_environment(report=print)


@pytest.fixture(scope="session")
def emulator(
    emulator_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Emulator]:
    """Run one emulator for the tests of one process; each xdist worker has one."""
    state_dir = tmp_path_factory.mktemp("emulator")
    running = server.start(emulator_python, state_dir, "us-east-1")
    state.write(state_dir, running)
    yield running
    server.stop(running.pid, state_dir)


@pytest.fixture
def environment_name() -> str:
    """Return an environment name that no other test of this emulator uses."""
    return f"t{next(NUMBERS)}"


@pytest.fixture
def deployed(
    emulator: Emulator, environment_name: str, monkeypatch: pytest.MonkeyPatch
) -> Emulator:
    """Deploy the data stack under the test's name, and point this process at it."""
    deploy.deploy_embedded(emulator, APP, environment_name)
    monkeypatch.setenv("PIECEWORK_APP", APP)
    monkeypatch.setenv("PIECEWORK_ENV", environment_name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", emulator.endpoint)
    monkeypatch.setenv("AWS_DEFAULT_REGION", emulator.region)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", ACCESS_KEY)
    return emulator
