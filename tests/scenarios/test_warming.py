"""Guarantee: a warm prefix is written to the provider's cache once, and then read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from piecework.declared import as_pipeline
from piecework.domain.states import JobStatus
from tests.scenarios import conftest, warming
from tests.scenarios.conftest import Scenario
from tests.scenarios.test_costs import model_bill
from tests.scenarios.warming import PREFIX, CachingProvider, Question

PIPELINE = as_pipeline(warming.warming)
#: Chunks of two calls each: 64 calls in flight.
CHUNKS = 32


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[CachingProvider]:
    found = CachingProvider()
    monkeypatch.setattr(warming, "current", found)
    monkeypatch.setitem(conftest.ALL, PIPELINE.name, PIPELINE)
    warming.warmed.dependency.warming.prefixes.clear()  # type: ignore[union-attr]
    return found


async def run(scenario: Scenario) -> None:
    items = [Question(n=n) for n in range(CHUNKS)]
    await scenario.submit(PIPELINE, items)  # type: ignore[arg-type]
    settings = replace(scenario.rt.settings, max_chunks=64)
    async with scenario.worker(settings=settings), scenario.reconciler():
        assert (await scenario.ended()).status is JobStatus.SUCCEEDED


@pytest.mark.parametrize("fails", [0, 1])
async def test_a_warm_prefix_is_written_once_at_64_calls_in_flight(
    scenario: Scenario, provider: CachingProvider, fails: int
) -> None:
    provider.fails = fails
    await run(scenario)

    calls = 2 * CHUNKS
    assert provider.asked == calls + fails
    assert provider.most == calls - 1  # all but the first, at once
    read = sum(each[0] for each in provider.book)
    written = sum(each[1] for each in provider.book)
    assert written == PREFIX
    assert read >= 0.95 * PREFIX * calls
    bill = (await model_bill(scenario))["paid"]
    assert round(bill["usd"] * 1e9) == provider.nano_usd
