from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.ledger import LedgerReader
from bench.rivals.protocol import CallFailedError, Config, Tasks, fails_first


@pytest.fixture
def config(tmp_path: Path) -> Config:
    places = {"endpoint": "", "region": "", "queue": "", "table": ""}
    ledger = str(tmp_path / "ledger")
    return Config("W1", 3, 2, 30, ledger=ledger, chunks=2, calls=3, fails=1.0, **places)


async def test_a_call_that_fails_does_so_once(config: Config) -> None:
    tasks = Tasks(replace(config, workload="W2a"))

    with pytest.raises(CallFailedError):
        await tasks.aperform("1.2")
    await tasks.aperform("1.2")

    facts = LedgerReader(Path(config.ledger)).poll()
    assert (1, {("1", "2"): 1}, 1) == (facts.failed, facts.paid, facts.started_again)


async def test_a_chunk_fails_with_one_of_its_calls_and_pays_again(
    config: Config,
) -> None:
    tasks = Tasks(replace(config, workload="W2b"))
    tasks.ledger.count_attempt(0, 1)
    tasks.ledger.count_attempt(0, 2)

    with pytest.raises(CallFailedError):
        await tasks.aperform("0")
    await tasks.aperform("0")

    facts = LedgerReader(Path(config.ledger)).poll()
    assert (1, 2, {"0": 1}) == (facts.failed, facts.paid_twice, facts.dones)


def test_blocking_calls_of_a_chunk_fail_alike(config: Config) -> None:
    tasks = Tasks(replace(config, workload="W2b"))

    with pytest.raises(CallFailedError):
        tasks.perform("1")
    tasks.perform("1")

    facts = LedgerReader(Path(config.ledger)).poll()
    assert (3, 3, 0) == (facts.failed, len(facts.paid), facts.paid_twice)


def test_the_configured_share_of_calls_fails_for_every_system() -> None:
    unlucky = sum(fails_first(1, n // 116, n % 116, 0.05) for n in range(2_552))

    assert 0.04 < unlucky / 2_552 < 0.06
    assert fails_first(1, 2, 3, 0.05) == fails_first(1, 2, 3, 0.05)
