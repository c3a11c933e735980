"""Guarantee: an open job is cancelled and compensated once, at its deadline."""

from __future__ import annotations

import pytest

from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.reconciler.loop import Reconciler
from piecework.store.completion import Tallies
from piecework_orchestrator.operate.retry import RetryRequest, retry
from piecework_orchestrator.reading.events import job_events
from piecework_orchestrator.reading.job_documents import job_document
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, counting, travel, trip
from tests.scenarios.test_compensate import bookings

JOB = JobRef("default", "job-1")
UNDONE = ["unbook car", "unbook hotel", "unbook flight"]


async def test_a_deadline_compensates_each_stage_exactly_once(
    scenario: Scenario,
) -> None:
    items = [Item(n=n, trouble="slow-car") for n in range(3)]
    await scenario.submit(trip, items, deadline_s=12.0)
    async with scenario.worker("w1"), scenario.reconciler(), scenario.reconciler():
        await scenario.until(lambda: scenario.happened("car") == 3)
        ended = await scenario.ended()
        await scenario.until(lambda: scenario.happened("told", "ended"))

    assert ended.status is JobStatus.CANCELLED
    for n in range(3):
        assert bookings(scenario, n) == ["book flight", "book hotel", *UNDONE]
    shown = await job_document(scenario.rt, ended)
    events = [event["event"] for event in await job_events(scenario.rt, ended)]
    assert shown["cancel"]["cancel_code"] == "job.deadline.passed"
    assert shown["cancel"]["cancelled_by"] == "deadline"
    assert events.count("deadline") == 1
    assert scenario.happened("told", "deadline", "CANCELLING", "deadline") == 1
    assert scenario.happened("told", "ended", "CANCELLED", "deadline") == 1
    assert [n["state"] for n in shown["notifications"]] == ["DELIVERED", "DELIVERED"]


@pytest.mark.usefixtures("short_leases")
async def test_a_worker_that_dies_after_a_deadline_leaves_no_effect_uncompensated(
    scenario: Scenario,
) -> None:
    items = [Item(n=n, trouble="slow-car", seconds=0.7) for n in range(3)]
    await scenario.submit(travel, items, deadline_s=15.0)
    victim = await scenario.process("--no-reconcile")
    await scenario.until(lambda: scenario.happened("car") == 3)
    async with scenario.reconciler():
        await scenario.until(lambda: scenario.happened("unbook", "car"))
        await victim.kill()
        async with scenario.worker("heir"):
            ended = await scenario.ended()

    chunks = await scenario.chunks()
    assert ended.status is JobStatus.CANCELLED
    assert {chunk.status for chunk in chunks} == {ChunkStatus.CANCELLED}
    assert {chunk.item["compensation"] for chunk in chunks} == {"COMPENSATED"}
    for n in range(3):
        # What the victim was undoing as it died may be asked for twice, by one key.
        undone = {line[1]: line[3] for line in given_back(scenario, n)}
        assert len(set(map(tuple, given_back(scenario, n)))) == len(undone) == 3


def given_back(scenario: Scenario, n: int) -> list[list[str]]:
    """Return the lines of what was given back for an item."""
    lines = [line for line in scenario.ledger if line[0] == "unbook"]
    return [line for line in lines if line[2] == str(n)]


async def test_a_job_that_ends_in_time_is_left_alone(scenario: Scenario) -> None:
    await scenario.submit(counting, [Item(n=1)], deadline_s=1000.0)
    async with scenario.worker():
        ended = await scenario.ended()
    await Reconciler(scenario.later(2000), scenario.log).run_pass()

    assert ended.status is JobStatus.SUCCEEDED
    assert (await scenario.job()).item == ended.item


class Uncounted(Tallies):
    """The tallies of a worker that always dies before it counts an ended chunk."""

    async def add(self, *_: object) -> bool:
        """Count nothing."""
        return False


@pytest.mark.parametrize(
    ("trouble", "status"),
    [("", JobStatus.SUCCEEDED), ("permanent", JobStatus.PARTIAL)],
)
async def test_a_deadline_that_passes_before_the_join_starts_stops_nothing(
    scenario: Scenario, trouble: str, status: JobStatus
) -> None:
    items = [Item(n=1), Item(n=2, trouble=trouble)]
    await scenario.submit(counting, items, deadline_s=1000.0)
    async with scenario.worker(tallies=Uncounted(scenario.rt.table)):

        async def all_have_ended() -> bool:
            return all(chunk.status.ended for chunk in await scenario.chunks())

        await scenario.until(all_have_ended)
        assert (await scenario.job()).status is JobStatus.RUNNING
        await Reconciler(scenario.later(2000), scenario.log).run_pass()
        ended = await scenario.ended()

    assert ended.status is status
    assert scenario.happened("join") == 1


async def test_a_deadline_whose_chunks_all_succeed_lets_the_join_run(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piecework.saga.recovery.BASE", 600.0)
    await scenario.submit(trip, [Item(n=1, trouble="tell-transient")], deadline_s=10.0)
    async with scenario.worker(), scenario.reconciler():

        async def waits() -> bool:
            return (await scenario.chunks())[0].status is ChunkStatus.WAITING

        await scenario.until(waits)
        scenario.fix()
        ended = await scenario.ended()
        await scenario.until(lambda: scenario.happened("told", "ended"))

    assert ended.status is JobStatus.SUCCEEDED
    assert "cancel" not in await job_document(scenario.rt, ended)
    assert scenario.happened("told", "ended", "SUCCEEDED") == 1
    assert scenario.happened("unbook") == 0


async def test_a_job_without_a_worker_is_cancelled_at_its_deadline(
    scenario: Scenario,
) -> None:
    await scenario.submit(counting, [Item(n=1)], deadline_s=0.5)
    async with scenario.reconciler():
        ended = await scenario.ended()
    assert (ended.status, ended.item["cancelled_by"]) == (
        JobStatus.CANCELLED,
        "deadline",
    )


async def test_the_deadline_of_the_first_submit_is_kept(scenario: Scenario) -> None:
    job, _ = await scenario.submit(counting, [Item(n=1)], deadline_s=500.0)
    again, new = await scenario.submit(counting, [Item(n=1)], deadline_s=900.0)
    assert new is False
    assert again.deadline == job.deadline


async def test_a_resume_goes_on_without_the_deadline_that_passed(
    scenario: Scenario,
) -> None:
    await scenario.submit(counting, [Item(n=1)], deadline_s=0.5)
    async with scenario.reconciler():
        await scenario.ended()
        await retry(scenario.rt, RetryRequest(JOB, "me", "after all"))
        async with scenario.worker():
            ended = await scenario.ended()
    assert ended.status is JobStatus.SUCCEEDED
    assert ended.deadline is None


async def test_a_resume_may_bring_a_deadline_of_its_own(scenario: Scenario) -> None:
    await scenario.submit(counting, [Item(n=1)], deadline_s=0.5)
    async with scenario.reconciler():
        await scenario.ended()
        until = scenario.rt.clock() + 1.0
        await retry(scenario.rt, RetryRequest(JOB, "me", "once more", until))
        ended = await scenario.ended()
    assert (ended.status, ended.gen) == (JobStatus.CANCELLED, 2)
