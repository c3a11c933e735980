"""Guarantee: an input that harms its process costs no other chunk an attempt."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from verification.innocents.trial import GUILTY, SHORT, trial


@pytest.mark.usefixtures("deployed")
async def test_a_guilty_chunk_ends_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial of `make innocents`: all the guilty chunks in one job."""
    # What the trial sets ends with the test, too.
    shorter = {"PIECEWORK_MAX_ATTEMPTS": "2", "PIECEWORK_LOOP_BLOCKED_S": "2"}
    for name, value in {**SHORT, "SCENARIO_LEDGER": "", **shorter}.items():
        monkeypatch.setenv(name, value)
    found = await trial(tmp_path)

    assert found.kept, (found.facts, found.letters)
    assert len(found.dead) == len(GUILTY)
    assert Counter(row.error_code for row in found.dead) == {
        "runtime.stage.killed": 2,
        "runtime.stage.unhandled": 2,
        "runtime.worker.exhausted": 2,
        "runtime.stage.blocked_loop": 1,
    }
