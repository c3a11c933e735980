"""Guarantee: a cancel with --compensate executes exactly what its dry run shows."""

from __future__ import annotations

from tests.scenarios.command_line import piecework
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, travel

PLAN = ("jobs", "cancel", "job-1", "--compensate", "--dry-run")
TRAVEL = ("--pipeline", "tests.scenarios.pipelines:travel")


async def test_cancel_compensates_in_the_order_of_its_dry_run(
    scenario: Scenario,
) -> None:
    await scenario.submit(travel, [Item(n=1, trouble="slow-car")])

    async with scenario.worker():
        await scenario.until(lambda: scenario.happened("car"))
        plan = await piecework(*PLAN, *TRAVEL, "-o", "json")
        bare = await piecework(*PLAN, "--chunk", "0", "-o", "json")
        await piecework("jobs", "cancel", "job-1", "--compensate", "--yes")
        await scenario.ended()

    undone = [line[1] for line in scenario.ledger if line[0] == "unbook"]
    assert ["car", "hotel", "flight"] == undone
    assert [(f"cancel_{name}", name) for name in undone] == [
        (row["compensate"], row["stage"]) for row in plan.document
    ]
    assert ["in doubt", "done", "done"] == [row["state"] for row in plan.document]
    assert undone == [row["stage"] for row in bare.document]


async def test_dry_run_shows_that_a_chunk_past_its_pivot_goes_forward(
    scenario: Scenario,
) -> None:
    await scenario.submit(travel, [Item(n=1, trouble="tell-late", seconds=60)])

    async with scenario.worker():
        await scenario.until(lambda: scenario.happened("book", "payment"))
        plan = await piecework(*PLAN, *TRAVEL, "-o", "json")

    assert {"past the pivot: goes forward"} == {row["state"] for row in plan.document}
