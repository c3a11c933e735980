"""Guarantee: one trace for each compensation, with its stages and its steps."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs

from piecework.domain.refs import JobRef
from piecework_orchestrator.operate.cancel import cancel
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, travel


async def test_a_trace_has_the_steps_and_their_compensations_under_one_id(
    scenario: Scenario,
) -> None:
    with capture_logs() as said:
        await scenario.submit(travel, [Item(n=1, trouble="car-permanent")])
        async with scenario.worker():
            await scenario.ended()

    trace = [line for line in said if line.get("correlation_id") == "job-1/0"]
    assert [
        ("stage.completed", "flight"),
        ("stage.completed", "hotel"),
        ("compensation.started", "car"),
        ("compensation.stage_compensated", "car"),
        ("compensation.stage_compensated", "hotel"),
        ("compensation.stage_compensated", "flight"),
        ("compensation.ended", None),
    ] == [(line["event"], line.get("stage")) for line in trace]
    assert ["flight", "hotel", "car"] == trace[2]["steps"]
    assert {("job-1", 0)} == {(line["job"], line["chunk"]) for line in trace}


async def test_a_failed_compensation_emits_an_event_for_an_alarm(
    scenario: Scenario,
) -> None:
    with capture_logs() as said:
        await scenario.submit(travel, [Item(n=1, trouble="slow-car hotel-stays")])
        async with scenario.worker():
            await scenario.until(lambda: scenario.happened("car"))
            ref = JobRef("default", "job-1")
            who = {"actor": "tester", "reason": "enough"}
            await cancel(scenario.rt, ref, compensate=True, **who)
            await scenario.ended()

    (failed,) = events(said, "compensation.stage_failed")
    (ended,) = events(said, "compensation.ended")
    undone = [line["stage"] for line in events(said, "compensation.stage_compensated")]
    assert ("error", "hotel") == (failed["log_level"], failed["stage"])
    assert (["car", "flight"], ["hotel"]) == (undone, ended["uncompensated"])
    assert ["car", "flight"] == [
        line[1] for line in scenario.ledger if line[0] == "unbook"
    ]


def events(said: list[Any], name: str) -> list[Any]:
    """Return the events of a name."""
    return [line for line in said if line["event"] == name]
