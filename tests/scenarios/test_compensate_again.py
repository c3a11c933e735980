"""Guarantee: a failed compensation runs again after a fix, or is resolved by hand."""

from __future__ import annotations

import asyncio

import pytest

from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.errors import UsageError
from piecework.store.dead_letters import Closing
from piecework_orchestrator.dead_letters.closing import Selection
from piecework_orchestrator.dead_letters.compensate import (
    HandOutcome,
    compensate_selected,
)
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, travel

JOB = JobRef("default", "job-1")
BY = Closing("me", "the shop is back")


async def die_uncompensated(scenario: Scenario, hotel: str = "hotel-half") -> None:
    """Let the car fail, and the hotel's compensation: by default after its call."""
    await scenario.submit(travel, [Item(n=1, trouble=f"car-permanent {hotel}")])
    async with scenario.worker():
        await scenario.ended()
    (letter,) = await scenario.letters()
    assert (letter["compensation"], letter["uncompensated_stages"]) == (
        "FAILED",
        ["hotel"],
    )
    scenario.fix()


async def compensate(scenario: Scenario, outcome: HandOutcome | None = None) -> int:
    """Compensate all dead letters."""
    selection = Selection(await scenario.letter_rows())
    return (await compensate_selected(scenario.rt, selection, BY, outcome))["job-1"]


async def test_only_the_failed_compensation_runs_again_and_no_call_is_repeated(
    scenario: Scenario,
) -> None:
    await die_uncompensated(scenario)
    undone = [line[:2] for line in scenario.ledger if line[0] == "unbook"]
    async with scenario.worker("w2"):
        assert await compensate(scenario) == 1
        await scenario.ended()
        first, second = await scenario.letters()
        assert [line[:2] for line in scenario.ledger if line[0] == "unbook"] == undone
        assert scenario.happened("book", "car") == 0
        assert (first["state"], first["redriven_by"]) == ("REDRIVEN", "me")
        assert (second["state"], second["compensation"]) == ("OPEN", "COMPENSATED")
        assert second["error_code"] == first["error_code"] == "tool.stock.none"
        with pytest.raises(UsageError) as refused:
            await compensate(scenario)
        assert refused.value.code == "redrive.selection.empty"
        await scenario.redrive()
        ended = await scenario.ended()
    assert ended.status is JobStatus.SUCCEEDED
    assert (
        scenario.happened("book", "hotel") == scenario.happened("book", "flight") == 2
    )


@pytest.mark.parametrize(("outcome", "hotels"), [("compensated", 2), ("not-needed", 1)])
async def test_a_resolved_compensation_decides_what_a_redrive_repeats(
    scenario: Scenario, outcome: str, hotels: int
) -> None:
    await die_uncompensated(scenario)
    (before,) = await scenario.letter_rows()
    assert await compensate(scenario, HandOutcome(outcome)) == 1
    late = await compensate_selected(
        scenario.rt, Selection([before]), BY, HandOutcome.COMPENSATED
    )
    assert late == {"job-1": 0}

    (letter,) = await scenario.letters()
    result = outcome.replace("-", "_").upper()
    assert (letter["state"], letter["compensation"]) == ("OPEN", result)
    assert (letter["resolved_stages"], letter["compensation_resolved_by"]) == (
        ["hotel"],
        "me",
    )
    events = [row.event for row in await scenario.rt.jobs.events(JOB)]
    assert events.count("compensation resolved") == 1
    async with scenario.worker("w2"):
        await scenario.redrive()
        ended = await scenario.ended()
    assert ended.status is JobStatus.SUCCEEDED
    assert (
        scenario.happened("book", "hotel"),
        scenario.happened("book", "flight"),
    ) == (
        hotels,
        2,
    )
    assert scenario.happened("unbook", "hotel") == 1


async def kill_in_compensation(scenario: Scenario, point: str) -> None:
    """Kill a true worker that compensates, at a point."""
    scenario.hold(point)
    victim = await scenario.process("--no-reconcile")
    await scenario.until(lambda: scenario.happened("held", point))
    await asyncio.sleep(1.0)  # the journal has each answer
    await victim.kill()
    scenario.release(point)


@pytest.mark.usefixtures("short_leases")
@pytest.mark.parametrize("point", ["before", "after"])
async def test_a_compensation_goes_on_after_the_kill_of_its_worker(
    scenario: Scenario, point: str
) -> None:
    await die_uncompensated(scenario, "hotel-stays")
    assert scenario.happened("unbook", "hotel") == 0
    assert await compensate(scenario) == 1
    await kill_in_compensation(scenario, point)
    (first,) = await scenario.letters()
    with pytest.raises(UsageError):  # the dead letter is closed: another one follows
        await compensate(scenario)
    async with scenario.worker("heir"):
        await scenario.ended()
        letters = await scenario.letters()
    assert first["state"] == "REDRIVEN"
    assert [letter["state"] for letter in letters] == ["REDRIVEN", "OPEN"]
    assert (letters[1]["compensation"], letters[1]["error_code"]) == (
        "COMPENSATED",
        "tool.stock.none",
    )
    undone = [line[1] for line in scenario.ledger if line[0] == "unbook"]
    assert undone == ["car", "flight", "hotel"]
    (chunk,) = await scenario.chunks()
    assert (chunk.status, chunk.gen, chunk.attempts) == ("DEAD", 2, 1)
