"""Guarantee: chunks and jobs make an equal call once, by its window or its number."""

from __future__ import annotations

import pytest

from piecework.domain.states import JobStatus
from piecework_orchestrator.reading.job_documents import job_document
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, booking, noticing

HANGS = [Item(n=1, trouble="hangs")]


@pytest.mark.usefixtures("short_leases")
async def test_a_killed_call_is_taken_over_and_an_equal_one_waits_for_its_answer(
    scenario: Scenario,
) -> None:
    await scenario.submit(noticing, HANGS, "first")
    victim = await scenario.process("--no-reconcile")
    await scenario.until(lambda: scenario.happened("notified") == 1)
    async with scenario.worker("heir"):
        await scenario.submit(noticing, HANGS, "second")
        await scenario.until(lambda: scenario.happened("sending", "second"))
        await victim.kill()
        await scenario.until(lambda: scenario.happened("notified") == 2)
        scenario.fix()
        ended = [await scenario.ended(job) for job in ("first", "second")]

    shown = [(await job_document(scenario.rt, job))["calls"] for job in ended]
    (waited,) = await scenario.chunks("second")
    keys = {line[2] for line in scenario.ledger if line[0] == "notified"}
    assert [JobStatus.SUCCEEDED] * 2 == [job.status for job in ended]
    assert (1, 1) == (len(keys), waited.attempts)
    assert [(1, 0), (0, 1)] == [(each["paid"], each["cached"]) for each in shown]


async def test_chunks_of_one_job_send_an_equal_notice_once(scenario: Scenario) -> None:
    notices = [Item(n=n, trouble=("rain", "sun")[n % 2]) for n in range(8)]
    await scenario.submit(noticing, notices)
    async with scenario.worker("w1"), scenario.worker("w2"):
        ended = await scenario.ended()
    assert ended.status is JobStatus.SUCCEEDED
    assert (2, 8) == (scenario.happened("notified"), scenario.happened("sending"))


async def test_ten_numbers_in_one_job_are_made_in_order_without_an_order_key(
    scenario: Scenario,
) -> None:
    await scenario.submit(booking, [Item(n=n) for n in range(1, 11)])
    async with scenario.worker("w1"), scenario.worker("w2"):
        ended = await scenario.ended()

    assert ended.status is JobStatus.SUCCEEDED
    chunks = await scenario.chunks()
    assert ({1}, True) == (
        {chunk.attempts for chunk in chunks},
        any(chunk.early_deferrals for chunk in chunks),
    )
    booked = [int(line[1]) for line in scenario.ledger if line[0] == "booked"]
    assert list(range(1, 11)) == booked


async def test_numbers_that_come_too_early_wait_for_their_turn(
    scenario: Scenario,
) -> None:
    async with scenario.worker():
        await scenario.submit(booking, [Item(n=n) for n in (4, 3, 2)], "early")

        async def deferred() -> bool:
            return any(c.early_deferrals for c in await scenario.chunks("early"))

        await scenario.until(deferred)
        await scenario.submit(booking, [Item(n=1)], "due")
        for job in ("due", "early"):
            assert (await scenario.ended(job)).status is JobStatus.SUCCEEDED

    assert [] == await scenario.letters("early")
    assert {1} == {chunk.attempts for chunk in await scenario.chunks("early")}
    assert list("1234") == [line[1] for line in scenario.ledger if line[0] == "booked"]
