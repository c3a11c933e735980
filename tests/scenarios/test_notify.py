"""Guarantee: a notify hook is called at least once, whichever process dies."""

from __future__ import annotations

import asyncio

import pytest

from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework_orchestrator.dead_letters.redrive import RedriveRequest, redrive
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.reading.job_documents import job_document
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, counting, telling


async def closed(scenario: Scenario) -> bool:
    """Return whether no job is found by reconcilers any more."""
    return [ref async for ref in scenario.rt.jobs.active()] == []


async def states(scenario: Scenario, job: str = "job-1") -> list[str]:
    """Return the state of each notification of a job."""
    document = await job_document(scenario.rt, await scenario.job(job))
    return [notice["state"] for notice in document["notifications"]]


async def test_the_worker_that_ends_a_job_calls_its_notify_hook(
    scenario: Scenario,
) -> None:
    await scenario.submit(telling, [Item(n=1), Item(n=2, trouble="permanent")])
    async with scenario.worker():
        await scenario.until(lambda: scenario.happened("told"))
        await scenario.until(lambda: closed(scenario))

    assert scenario.happened("notice") == 1
    assert scenario.happened("told", "ended", "PARTIAL", "nobody") == 1
    assert await states(scenario) == ["DELIVERED"]


async def test_each_generation_of_a_job_is_notified(scenario: Scenario) -> None:
    await scenario.submit(telling, [Item(n=1), Item(n=2, trouble="permanent")])
    async with scenario.worker():
        await scenario.until(lambda: scenario.happened("told"))
        scenario.fix()
        letters = await scenario.letter_rows()
        asked = RedriveRequest(JobRef("default", "job-1"), letters, "me", "fixed")
        await redrive(scenario.rt, asked)
        await scenario.until(lambda: scenario.happened("told", "ended", "SUCCEEDED"))
        await scenario.until(lambda: closed(scenario))

    keys = {line[3] for line in scenario.ledger if line[0] == "notice"}
    assert scenario.happened("notice") == len(keys) == 2


@pytest.mark.usefixtures("short_leases")
async def test_another_worker_repeats_the_notification_of_a_dead_one(
    scenario: Scenario,
) -> None:
    await scenario.submit(telling, [Item(n=1)], "slow-1")
    victim = await scenario.process("--no-reconcile")
    await scenario.until(lambda: scenario.happened("notice"))
    await victim.kill()
    scenario.fix()
    async with scenario.worker("heir"), scenario.reconciler():
        await scenario.until(lambda: scenario.happened("told"))
        await scenario.until(lambda: closed(scenario))

    keys = {line[3] for line in scenario.ledger if line[0] == "notice"}
    assert (await scenario.job("slow-1")).status is JobStatus.SUCCEEDED
    assert len(keys) == 1
    assert scenario.happened("told") == 1


async def test_another_worker_sends_the_notification_that_a_dead_one_did_not(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dead(*_: object) -> None:
        return None

    await scenario.submit(telling, [Item(n=1)])
    with monkeypatch.context() as patched:
        patched.setattr("piecework_worker.worker.notify_job", dead)
        async with scenario.worker():
            await scenario.ended()
    assert not await closed(scenario)
    async with scenario.worker("heir"), scenario.reconciler():
        await scenario.until(lambda: closed(scenario))
    assert scenario.happened("told") == 1


async def test_the_next_worker_notifies_of_a_cancel_without_workers(
    scenario: Scenario,
) -> None:
    await scenario.submit(telling, [Item(n=1)])
    ref = JobRef("default", "job-1")
    job = await cancel(scenario.rt, ref, actor="me", reason="no")
    assert job.status is JobStatus.CANCELLED
    async with scenario.worker(), scenario.reconciler():
        await scenario.until(lambda: closed(scenario))
        await asyncio.sleep(0.3)

    assert scenario.happened("told", "ended", "CANCELLED", "me") == 1
    assert await scenario.rt.dead_letter_queue.depth() == 0


async def test_a_failing_hook_is_called_again_and_then_abandoned(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piecework_worker.notifier.CAP_S", 0.2)
    monkeypatch.setattr("piecework_worker.notifier.MAX_ATTEMPTS", 3)
    await scenario.submit(telling, [Item(n=1)], "flaky-1")
    async with scenario.worker(), scenario.reconciler():
        await scenario.until(lambda: closed(scenario))

    document = await job_document(scenario.rt, await scenario.job("flaky-1"))
    (notice,) = document["notifications"]
    assert scenario.happened("notice") == 3
    assert (notice["state"], notice["attempts"]) == ("ABANDONED", 3)
    assert notice["last_error"] == "tool.stock.busy: not now"


async def test_a_hook_that_recovers_receives_the_notification(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piecework_worker.notifier.CAP_S", 0.2)
    await scenario.submit(telling, [Item(n=1)], "flaky-1")
    async with scenario.worker(), scenario.reconciler():
        await scenario.until(lambda: scenario.happened("notice"))
        scenario.fix()
        await scenario.until(lambda: closed(scenario))

    assert scenario.happened("told") == 1
    assert await states(scenario, "flaky-1") == ["DELIVERED"]


async def test_a_pipeline_without_a_hook_costs_no_request_more(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("piecework.store.notifications.Notifications.of", never)
    monkeypatch.setattr("piecework_worker.worker.notify_job", never)
    await scenario.submit(counting, [Item(n=1)])
    async with scenario.worker(), scenario.reconciler():
        await scenario.ended()
        assert await closed(scenario)
