"""Promise: what is foretold is what a cancel that compensates then does."""

from __future__ import annotations

from tests.scenarios.command_line import piecework
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, travel

TRAVEL = ("--pipeline", "tests.scenarios.pipelines:travel")


async def test_what_is_foretold_is_what_is_undone_in_its_order(
    scenario: Scenario,
) -> None:
    await scenario.submit(travel, [Item(n=1, trouble="slow-car")])

    async with scenario.worker():
        await scenario.until(lambda: scenario.happened("car"))
        plan = await piecework("jobs", "undo-plan", "job-1", *TRAVEL, "-o", "json")
        bare = await piecework("jobs", "undo-plan", "job-1", "0", "-o", "json")
        await piecework("jobs", "cancel", "job-1", "--compensate", "--yes")
        await scenario.ended()

    undone = [line[1] for line in scenario.ledger if line[0] == "unbook"]
    assert ["car", "hotel", "flight"] == undone
    assert [(f"cancel_{name}", name) for name in undone] == [
        (row["compensate"], row["stage"]) for row in plan.document
    ]
    assert ["in doubt", "done", "done"] == [row["state"] for row in plan.document]
    assert undone == [row["stage"] for row in bare.document]


async def test_what_is_past_its_pivot_is_foretold_to_go_forward(
    scenario: Scenario,
) -> None:
    await scenario.submit(travel, [Item(n=1, trouble="tell-late", seconds=60)])

    async with scenario.worker():
        await scenario.until(lambda: scenario.happened("book", "payment"))
        plan = await piecework("jobs", "undo-plan", "job-1", *TRAVEL, "-o", "json")

    assert {"past the pivot: goes forward"} == {row["state"] for row in plan.document}
