"""Guarantee: a paused pipeline starts no call in any job, also of a later submit."""

from __future__ import annotations

import pytest

from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.errors import UsageError
from piecework.explain.causes import find
from piecework.explain.situation import read_situation
from piecework_orchestrator.operate.pause import pause, resume
from piecework_orchestrator.operate.pipelines import (
    list_pipelines,
    pause_one,
    resume_one,
)
from piecework_orchestrator.reading.job_documents import job_facts, pause_command
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, counting, travel

JOB = JobRef("default", "job-1")
WHY = "the prompt is wrong"


async def state(scenario: Scenario, job: str) -> tuple[str, str]:
    """Return the status of a job, and the code of its pause."""
    found = await scenario.job(job)
    return found.status, found.pause.code if found.pause else ""


async def test_a_paused_pipeline_holds_its_jobs_and_no_other(
    scenario: Scenario,
) -> None:
    rt = scenario.rt
    await scenario.submit(counting, [Item(n=n, calls=100) for n in range(4)])
    await scenario.submit(counting, [Item(n=5)], "by-hand")
    await pause(rt, JobRef("default", "by-hand"), actor="you", reason="later")

    async def given_back() -> bool:
        return all(c.status is not ChunkStatus.RUNNING for c in await scenario.chunks())

    async with scenario.worker(), scenario.reconciler():
        await scenario.until(lambda: scenario.happened("call") > 30)
        paused = await pause_one(rt, "default", "counting", "me", WHY)
        await scenario.until(given_back)
        made = scenario.happened("call")
        await scenario.submit(counting, [Item(n=6)], "meanwhile")
        await scenario.submit(travel, [Item(n=1)], "other")
        assert (await scenario.ended("other")).status is JobStatus.SUCCEEDED
        assert (made, ["job-1"]) == (scenario.happened("call"), paused["followed"])
        assert await state(scenario, "meanwhile") == ("PAUSED", "pipeline")
        assert await state(scenario, "by-hand") == ("PAUSED", "operator")
        held = job_facts(await scenario.job(), rt.clock())
        assert pause_command(held) == "piecework pipelines resume counting"
        first = find(await read_situation(rt, await scenario.job()))[0]
        assert (first.kind.code, first.command) == (
            "pipeline.paused",
            "piecework pipelines resume counting",
        )
        for job in ("job-1", "by-hand"):
            with pytest.raises(UsageError, match=WHY) as refused:
                await resume(rt, JobRef("default", job), actor="me", reason="go on")
            assert refused.value.code == "job.pipeline.paused"
        resumed = await resume_one(rt, "default", "counting", "me", "new prompt")
        ends = [await scenario.ended(job) for job in ("job-1", "meanwhile")]

    assert {end.status for end in ends} == {JobStatus.SUCCEEDED}
    assert {"job-1", "meanwhile"} == {*resumed["followed"]}
    assert await state(scenario, "by-hand") == ("PAUSED", "operator")
    calls = [line[1] for line in scenario.ledger if line[0] == "call"]
    assert len(calls) == len(set(calls))
    told = [(e.event, e.facts) for e in await rt.jobs.events(JOB)][:2]
    assert [(event, facts["code"], facts["reason"]) for event, facts in told] == [
        ("paused", "pipeline", WHY),
        ("resumed", "pipeline", "new prompt"),
    ]
    with pytest.raises(UsageError) as twice:
        await resume_one(rt, "default", "counting", "me", "again")
    assert twice.value.code == "job.pipeline.not_paused"


async def test_a_reconciler_finishes_the_pause_and_the_resume_of_a_dead_command(
    scenario: Scenario,
) -> None:
    rt = scenario.rt
    await scenario.submit(counting, [Item(n=1)])

    async def is_now(status: JobStatus) -> bool:
        return (await scenario.job()).status is status

    async with scenario.reconciler():
        seen = await rt.pipelines.read("default", "counting")
        assert await rt.pipelines.pause(seen, "me", WHY)  # the command dies here
        await scenario.until(lambda: is_now(JobStatus.PAUSED))
        assert not await rt.pipelines.resume(seen, "me", WHY)  # a late copy
        [row] = await list_pipelines(rt, "default")
        assert (row["pipeline"], row["jobs"], row["pause"]["message"]) == (
            "counting",
            1,
            WHY,
        )
        seen = await rt.pipelines.read("default", "counting")
        assert await rt.pipelines.resume(seen, "me", WHY)
        await scenario.until(lambda: is_now(JobStatus.RUNNING))
        async with scenario.worker():
            assert (await scenario.ended()).status is JobStatus.SUCCEEDED


async def test_a_pause_knows_the_jobs_that_followed_it_and_what_it_replaced(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piecework_orchestrator.operate.pipelines.NEWEST", 1)
    await scenario.submit(counting, [Item(n=1)])
    await scenario.submit(travel, [Item(n=1)], "newer")
    first = await pause_one(scenario.rt, "default", "counting", "me", WHY)
    again = await pause_one(scenario.rt, "default", "counting", "me", "the price")
    assert (first["known"], first["replaced"]) == (True, None)
    assert again["replaced"]["message"] == WHY
