"""Guarantee: a pause starts no further call, loses no answer and spends no attempt."""

from __future__ import annotations

import asyncio

import pytest

from piecework.domain.outcome import PAUSE
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.errors import UsageError
from piecework.resilience.limits import DEPENDENCY_PAUSED_CODE
from piecework.store.limits import Quotas
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.operate.pause import pause, resume
from piecework_orchestrator.reading.chunk_documents import chunk_document
from piecework_orchestrator.reading.job_documents import job_facts
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, counting, travel

JOB = JobRef("default", "job-1")


async def paused_midway(scenario: Scenario) -> int:
    """Pause a job in its calls; return how many it made until all chunks waited."""
    await scenario.until(lambda: scenario.happened("call") > 60)
    await pause(scenario.rt, JOB, actor="me", reason="the provider bills twice")

    async def given_back() -> bool:
        return all(c.status is not ChunkStatus.RUNNING for c in await scenario.chunks())

    await scenario.until(given_back)
    return scenario.happened("call")


async def test_a_pause_ends_at_the_calls_in_flight_and_a_resume_repeats_none(
    scenario: Scenario,
) -> None:
    slots = scenario.rt.settings.max_chunks
    await scenario.submit(counting, [Item(n=n, calls=100) for n in range(slots + 4)])

    async with scenario.worker("w1"):
        made = await paused_midway(scenario)
        async with scenario.worker("w2"), scenario.reconciler():
            await scenario.until(lambda: messages_are_gone(scenario))
        chunks, job = await scenario.chunks(), await scenario.job()
        assert scenario.happened("call") == made
        assert job.status is JobStatus.PAUSED
        assert {c.attempts for c in chunks} == {0}
        started = [c for c in chunks if c.fence]
        assert {(c.status, c.item.get("blocked_on")) for c in started} == {
            (ChunkStatus.WAITING, PAUSE)
        }
        await resume(scenario.rt, JOB, actor="me", reason="it is repaired")
        ended = await scenario.ended()

    calls = [line[1] for line in scenario.ledger if line[0] == "call"]
    assert ended.status is JobStatus.SUCCEEDED
    assert ended.pause is None
    assert len(calls) == len(set(calls)) == 100 * (slots + 4)
    assert {c.attempts for c in await scenario.chunks()} == {1}


async def test_a_paused_dependency_defers_the_chunks_that_need_it_and_no_other(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piecework.resilience.limits.PAUSED_RETRY_S", 0.5)
    rt = scenario.rt
    quotas = Quotas(rt.table, "me", rt.clock, rt.rng)
    await scenario.submit(counting, [Item(n=n, calls=200) for n in range(4)])

    async def deferred() -> bool:
        return all(c.item.get("deferrals") for c in await scenario.chunks())

    async with scenario.worker():
        await scenario.until(lambda: scenario.happened("call") > 20)
        await quotas.pause("model", "price change")
        await scenario.until(deferred)
        made, chunks = scenario.happened("call"), await scenario.chunks()
        await scenario.submit(travel, [Item(n=n) for n in range(2)], "other")
        other = await scenario.ended("other")
        assert other.status is JobStatus.SUCCEEDED
        assert scenario.happened("call") == made
        assert {c.item["error_code"] for c in chunks} == {DEPENDENCY_PAUSED_CODE}
        assert "price change (by me)" in (await scenario.job()).item["status_reason"]
        await quotas.resume("model")
        ended = await scenario.ended()

    calls = [line[1] for line in scenario.ledger if line[0] == "call"]
    assert ended.status is JobStatus.SUCCEEDED
    assert len(calls) == len(set(calls)) == 800
    assert {c.attempts for c in await scenario.chunks()} == {1}


async def messages_are_gone(scenario: Scenario) -> bool:
    """Return whether no message of the paused job is left, visible or hidden."""
    return await scenario.rt.work.default.depth() == 0


async def test_every_view_of_a_paused_job_says_why(scenario: Scenario) -> None:
    await scenario.submit(counting, [Item(n=1)])
    await pause(scenario.rt, JOB, actor="me", reason="price change")

    job = await scenario.job()
    shown = job_facts(job, scenario.rt.clock())["pause"]
    chunk = await chunk_document(scenario.rt, job, 0)
    assert (shown["code"], shown["message"], shown["actor"]) == (
        "operator",
        "price change",
        "me",
    )
    assert chunk["job_paused"] == shown
    events = await scenario.rt.jobs.events(JOB)
    assert [(e.event, e.facts["reason"]) for e in events] == [
        ("paused", "price change")
    ]
    with pytest.raises(UsageError, match="PAUSED already") as twice:
        await pause(scenario.rt, JOB, actor="you", reason="again")
    assert twice.value.code == "job.state.not_pausable"
    assert (await scenario.job()).pause == job.pause


async def test_a_paused_job_can_be_cancelled_and_its_deadline_goes_on(
    scenario: Scenario,
) -> None:
    for job in ("job-1", "late"):
        seconds = 1.0 if job == "late" else None
        await scenario.submit(counting, [Item(n=1)], job, seconds)
        ref = JobRef("default", job)
        await pause(scenario.rt, ref, actor="me", reason="wait")

    await cancel(scenario.rt, JOB, actor="me", reason="enough")
    async with scenario.reconciler():
        late = await scenario.ended("late")
        ended = await scenario.ended()
    assert (ended.status, ended.cancel_reason) == (JobStatus.CANCELLED, "enough")
    assert (late.status, late.cancelled_by) == (JobStatus.CANCELLED, "deadline")
    with pytest.raises(UsageError, match="not paused"):
        await resume(scenario.rt, JOB, actor="me", reason="too late")


async def test_a_killed_resume_is_finished_by_a_reconciler(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piecework.reconciler.chunks.SUBMIT_TIMEOUT_S", 0.5)
    await scenario.submit(counting, [Item(n=n) for n in range(3)])
    async with scenario.worker():
        job = await pause(scenario.rt, JOB, actor="me", reason="wait")
        await scenario.until(lambda: messages_are_gone(scenario))
        await scenario.rt.transitions.resume(job, "me", "go on")  # and dies here
        async with scenario.reconciler():
            assert (await scenario.ended()).status is JobStatus.SUCCEEDED


async def test_a_job_whose_chunks_ended_in_the_pause_joins_after_the_resume(
    scenario: Scenario,
) -> None:
    await scenario.submit(counting, [Item(n=1, seconds=0.5)])
    async with scenario.worker():
        await scenario.until(lambda: scenario.happened("second"))
        await pause(scenario.rt, JOB, actor="me", reason="wait")
        await scenario.until(lambda: all_ended(scenario))
        assert (await scenario.job()).status is JobStatus.PAUSED
        await asyncio.gather(
            resume(scenario.rt, JOB, actor="me", reason="go on"), scenario.ended()
        )
    assert scenario.happened("join") == 1


async def all_ended(scenario: Scenario) -> bool:
    """Return whether every chunk has ended."""
    return all(chunk.status.ended for chunk in await scenario.chunks())
