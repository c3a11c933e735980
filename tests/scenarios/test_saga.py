"""Guarantee: a failed saga is compensated in reverse, and never past the pivot."""

from __future__ import annotations

import asyncio

import pytest

from piecework.domain.refs import ChunkRef
from piecework.domain.states import JobStatus
from piecework.store.checkpoints import read_effects
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, travel


def effects(scenario: Scenario) -> list[str]:
    """Return the bookings of the ledger in their order, without keys."""
    return [f"{line[0]} {line[1]}" for line in scenario.ledger if "book" in line[0]]


async def test_compensation_runs_in_reverse_with_the_step_in_doubt_first(
    scenario: Scenario,
) -> None:
    await scenario.submit(travel, [Item(n=1, trouble="car-permanent")])

    async with scenario.worker():
        ended = await scenario.ended()

    (letter,) = await scenario.letters()
    assert ended.status is JobStatus.FAILED
    assert effects(scenario) == [
        "book flight",
        "book hotel",
        "unbook car",
        "unbook hotel",
        "unbook flight",
    ]
    assert letter["error_code"] == "tool.stock.none"
    assert letter["compensation"] == "COMPENSATED"


async def test_a_refused_stage_is_not_compensated_and_the_record_says_so(
    scenario: Scenario,
) -> None:
    await scenario.submit(travel, [Item(n=1, trouble="hotel-declined")])

    async with scenario.worker():
        await scenario.ended()
        (letter,) = await scenario.letters()
        rows = await read_effects(scenario.rt.table, ChunkRef("default", "job-1", 0))
        scenario.fix()
        await scenario.redrive()
        ended = await scenario.ended()

    assert ("COMPENSATED", ["hotel"]) == (
        letter["compensation"],
        letter["stages_without_effect"],
    )
    assert {"hotel": "REFUSED", "flight": "COMPENSATED"} == {
        row.stage: row.state for row in rows if row.stage in {"hotel", "flight"}
    }
    assert ended.status is JobStatus.SUCCEEDED
    assert effects(scenario) == [
        "book flight",
        "unbook flight",
        "book flight",
        "book hotel",
        "book car",
        "book payment",
    ]


async def test_nothing_is_compensated_past_the_pivot(scenario: Scenario) -> None:
    await scenario.submit(travel, [Item(n=1, trouble="tell-permanent")])

    async with scenario.worker():
        await scenario.ended()

    (letter,) = await scenario.letters()
    assert effects(scenario) == [
        "book flight",
        "book hotel",
        "book car",
        "book payment",
    ]
    assert letter["compensation"] == "PAST_PIVOT"


async def test_a_transient_failure_is_retried_and_then_compensated(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piecework.saga.recovery.BASE", 0.05)
    await scenario.submit(travel, [Item(n=1, trouble="car-transient")])

    async with scenario.worker():
        await scenario.ended()

    (letter,) = await scenario.letters()
    assert letter["attempts"] == 3
    assert str(letter["error_history"]).count('"code": "tool.stock.busy"') == 3
    assert effects(scenario)[-3:] == ["unbook car", "unbook hotel", "unbook flight"]
    assert effects(scenario).count("book flight") == 1


async def test_a_redrive_after_a_compensation_books_with_fresh_keys(
    scenario: Scenario,
) -> None:
    await scenario.submit(travel, [Item(n=1, trouble="car-permanent")])

    async with scenario.worker():
        await scenario.ended()
        scenario.fix()
        assert await scenario.redrive() == (1, 2)
        await asyncio.sleep(0)
        ended = await scenario.ended()

    flights = [line for line in scenario.ledger if line[:2] == ["book", "flight"]]
    (letter,) = await scenario.letters()
    assert ended.status is JobStatus.SUCCEEDED
    assert effects(scenario)[5:] == [
        "book flight",
        "book hotel",
        "book car",
        "book payment",
    ]
    assert len({line[3] for line in flights}) == 2
    assert (letter["state"], letter["redriven_gen"]) == ("REDRIVEN", 2)


async def test_a_redrive_past_the_pivot_repeats_no_effect(scenario: Scenario) -> None:
    await scenario.submit(travel, [Item(n=1, trouble="tell-permanent")])

    async with scenario.worker():
        await scenario.ended()
        scenario.fix()
        await scenario.redrive()
        ended = await scenario.ended()

    assert ended.status is JobStatus.SUCCEEDED
    assert len(effects(scenario)) == 4
    assert scenario.happened("tell") == 1
