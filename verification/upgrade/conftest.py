"""A deployment that two versions share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from piecework.aws.endpoint import Emulator
from piecework.settings import Settings, load_settings
from tests.scenarios.conftest import (
    SHORT,
    machine,
    pytest_asyncio_loop_factories,
    scenario,
)
from verification.upgrade.versions import ROOT, Version, next_version

__all__ = ["machine", "pytest_asyncio_loop_factories", "scenario"]

#: Long enough to keep each lease on a busy machine. A newer message waits half of it.
LEASE = {"PIECEWORK_LEASE_S": "4", "PIECEWORK_VISIBILITY_S": "5"}


@pytest.fixture
def settings(deployed: Emulator, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return settings that are a little less short than those of other scenarios."""
    for name, value in {**SHORT, **LEASE}.items():
        monkeypatch.setenv(name, value)
    return load_settings()


@pytest.fixture
async def this(tmp_path: Path) -> AsyncIterator[Version]:
    """Return the version that is tested; `SCENARIO_LEDGER` is its own."""
    version = Version("this", ROOT, tmp_path)
    yield version
    await version.end()


@pytest.fixture(scope="session")
def next_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the code of the next version."""
    return next_version(tmp_path_factory.mktemp("next"))


@pytest.fixture
async def following(next_code: Path, tmp_path: Path) -> AsyncIterator[Version]:
    """Return the next version."""
    version = Version("next", next_code, tmp_path)
    yield version
    await version.end()
