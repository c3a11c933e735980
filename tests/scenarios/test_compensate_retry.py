"""Guarantee: after a cancel that compensates, a retry runs the stages again."""

from __future__ import annotations

import pytest

from piecework.domain.states import JobStatus
from piecework.errors import UsageError
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.operate.retry import RetryRequest, retry
from piecework_orchestrator.reading.job_documents import job_document
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, travel
from tests.scenarios.test_compensate import JOB, bookings, stop


async def test_a_retry_runs_compensated_stages_again(scenario: Scenario) -> None:
    await scenario.submit(travel, [Item(n=1, trouble="slow-car")])
    async with scenario.worker():
        await scenario.until(lambda: scenario.happened("car"))
        await stop(scenario)
        await scenario.ended()
        scenario.fix()
        count, gen = await retry(scenario.rt, RetryRequest(JOB, "me", "after all"))
        ended = await scenario.ended()

    assert (count, gen) == (1, 2)
    assert ended.status is JobStatus.SUCCEEDED
    assert "cancel" not in await job_document(scenario.rt, ended)
    for what in ("flight", "hotel"):
        assert scenario.happened("book", what) == 2
        keys = {line[3] for line in scenario.ledger if line[:2] == ["book", what]}
        assert len(keys) == 2
    assert scenario.happened("book", "payment") == 1


async def test_a_cancel_after_a_retry_compensates_the_stages_of_both(
    scenario: Scenario,
) -> None:
    await scenario.submit(travel, [Item(n=1, trouble="slow-car")])
    async with scenario.worker():
        await scenario.until(lambda: scenario.happened("car"))
        await cancel(scenario.rt, JOB, actor="me", reason="wait")
        await scenario.ended()
    assert scenario.happened("unbook") == 0
    await retry(scenario.rt, RetryRequest(JOB, "me", "to undo it"))
    await stop(scenario)
    async with scenario.worker("w2"):
        ended = await scenario.ended()

    assert ended.status is JobStatus.CANCELLED
    assert bookings(scenario, 1)[2:] == ["unbook car", "unbook hotel", "unbook flight"]


async def test_a_plain_cancel_under_way_does_not_become_a_compensating_one(
    scenario: Scenario,
) -> None:
    await scenario.submit(travel, [Item(n=1, trouble="slow-pay")])
    async with scenario.worker():
        await scenario.until(lambda: scenario.happened("paying"))
        await cancel(scenario.rt, JOB, actor="me", reason="enough")
        with pytest.raises(UsageError) as refused:
            await stop(scenario)
        await scenario.ended()

    assert refused.value.code == "job.cancel.without_compensation"
    assert scenario.happened("unbook") == 0
