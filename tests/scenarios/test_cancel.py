"""Guarantee: a cancel cuts off what is in flight, and a retry repeats nothing else."""

from __future__ import annotations

import asyncio
import json

import pytest

from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.errors import UsageError
from piecework.jobs.fan_out import write_chunks
from piecework.reconciler.loop import Reconciler
from piecework.store.completion import all_chunks
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.operate.retry import RetryRequest, retry
from piecework_orchestrator.submit.submit import Submission, submit
from piecework_simulation.driver.processes import read_inputs
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, counting, travel

JOB = JobRef("default", "job-1")


async def test_a_cancel_interrupts_the_calls_in_flight_and_quiesces(
    scenario: Scenario,
) -> None:
    # No call ends before the cancel, however slow the machine is.
    scenario.hold("call")
    await scenario.submit(counting, [Item(n=n, calls=400) for n in range(40)])

    async with scenario.worker("w1"), scenario.worker("w2"):
        await scenario.until(lambda: scenario.happened("call") > 100)
        job = await cancel(scenario.rt, JOB, actor="me", reason="enough")
        ended = await scenario.ended()
        made = scenario.happened("call")
        await asyncio.sleep(0.3)

    chunks = await scenario.chunks()
    assert job.status in {JobStatus.CANCELLING, JobStatus.CANCELLED}
    assert ended.status is JobStatus.CANCELLED
    assert scenario.happened("call") == made
    assert {chunk.status for chunk in chunks} == {ChunkStatus.CANCELLED}
    begun = {int(line[1]) for line in scenario.ledger if line[0] == "second"}
    cut_off = [c.item["cancelled_at_stage"] for c in chunks if c.ref.chunk in begun]
    assert set(cut_off) == {"cancelled-at-stage-second"}
    assert (ended.item["cancelled_by"], ended.item["cancel_reason"]) == ("me", "enough")


async def test_a_retry_goes_on_from_the_checkpoints(scenario: Scenario) -> None:
    scenario.hold("call", 30)
    await scenario.submit(counting, [Item(n=n, calls=240) for n in range(3)])

    async with scenario.worker():
        await scenario.until(lambda: scenario.happened("call") >= 3 * 34)
        await cancel(scenario.rt, JOB, actor="me", reason="wait")
        await scenario.ended()
        scenario.release("call")
        made = scenario.happened("call")
        count, gen = await retry(scenario.rt, RetryRequest(JOB, "me", "go on"))
        await scenario.until(lambda: scenario.happened("call") > made)
        ended = await scenario.ended()

    calls = [line[1] for line in scenario.ledger if line[0] == "call"]
    assert (count, gen) == (3, 2)
    assert ended.status is JobStatus.SUCCEEDED
    assert scenario.happened("first") == 3
    assert len(set(calls)) == 720
    # Only what a cancel cut off in flight is made again: four calls a chunk.
    assert len(calls) - len(set(calls)) <= 12


async def test_a_cancel_before_any_worker_cancels_every_chunk_at_once(
    scenario: Scenario,
) -> None:
    await scenario.submit(counting, [Item(n=n) for n in range(120)])

    job = await cancel(scenario.rt, JOB, actor="me", reason="no")

    certificate = json.loads(await scenario.rt.objects.get(job.item["certificate"]))
    assert job.status is JobStatus.CANCELLED
    assert certificate["outcomes"] == {"CANCELLED": 120}
    assert len(certificate["missing"]) == 120
    async with scenario.worker():

        async def queue_is_empty() -> bool:
            return await scenario.rt.work.default.depth() == 0

        await scenario.until(queue_is_empty)
    assert scenario.ledger == []


async def test_a_job_that_has_ended_cannot_be_cancelled(scenario: Scenario) -> None:
    await scenario.submit(counting, [Item(n=1)])
    async with scenario.worker():
        await scenario.ended()

    with pytest.raises(UsageError) as refused:
        await cancel(scenario.rt, JOB, actor="me", reason="late")

    assert refused.value.code == "job.state.not_cancellable"
    with pytest.raises(UsageError) as complete:
        await retry(scenario.rt, RetryRequest(JOB, "me", "again"))
    assert complete.value.code == "job.retry.nothing_left"


async def test_a_cancel_does_not_interrupt_a_compensation(scenario: Scenario) -> None:
    item = Item(n=1, trouble="car-permanent", seconds=2.5)
    await scenario.submit(travel, [item])

    async with scenario.worker():
        await scenario.until(lambda: scenario.happened("unbook", "car"))
        await cancel(scenario.rt, JOB, actor="me", reason="enough")
        reconciler = Reconciler(scenario.rt, scenario.log)

        async def ended() -> bool:
            reconciler.request_pass()
            await reconciler.run_pass()
            return (await scenario.job()).status.ended

        await scenario.until(ended)

    (chunk,) = await scenario.chunks()
    assert (await scenario.job()).status is JobStatus.CANCELLED
    assert chunk.status is ChunkStatus.DEAD
    undone = [line[1] for line in scenario.ledger if line[0] == "unbook"]
    assert undone == ["car", "hotel", "flight"]


async def test_a_submit_that_was_cancelled_is_not_sent_by_submitting_again(
    scenario: Scenario,
) -> None:
    # More than the writers of a submit have under way when it dies.
    items = [Item(n=n) for n in range(450)]

    class CrashError(Exception):
        pass

    def crash(done: str, count: int) -> None:
        if done == "written" and count > 10:
            raise CrashError

    asked = Submission(JOB, counting, "scenario", "tester")
    with pytest.raises(CrashError):
        await submit(scenario.rt, asked, read_inputs(counting, items), crash)
    cancelled = await cancel(scenario.rt, JOB, actor="me", reason="no")
    again, is_new = await scenario.submit(counting, items)

    assert cancelled.status is JobStatus.CANCELLED
    assert (again.status, is_new) == (JobStatus.CANCELLED, False)
    assert await scenario.rt.work.default.depth() == 0
    # The cancel has created the missing chunks, so a late request creates none.
    await write_chunks(scenario.rt, again)
    found = [chunk async for chunk in all_chunks(scenario.rt.table, JOB, 450)]
    assert [ChunkStatus.CANCELLED] * 450 == [chunk.status for chunk in found]
    async with scenario.worker():
        count, _ = await retry(scenario.rt, RetryRequest(JOB, "me", "go on"))
        ended = await scenario.ended()
    assert ended.status is JobStatus.SUCCEEDED
    assert count == 450
    assert scenario.happened("first") == 450
