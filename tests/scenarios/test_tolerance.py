"""Guarantee: a job succeeds without tolerated chunks, and stops if more fail."""

from __future__ import annotations

import json

import pytest

from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.errors import UsageError
from piecework_orchestrator.operate.retry import RetryRequest, retry
from piecework_orchestrator.reading.events import job_events
from piecework_orchestrator.reading.job_documents import job_document
from piecework_orchestrator.submit.submit import tolerated_of
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, counting

JOB = JobRef("default", "job-1")


async def test_a_job_succeeds_without_the_chunks_that_it_tolerates(
    scenario: Scenario,
) -> None:
    items = [Item(n=n, trouble="permanent" * (n == 4)) for n in range(10)]
    await scenario.submit(counting, items, tolerate="10%")
    async with scenario.worker():
        ended = await scenario.ended()
        certificate = json.loads(
            await scenario.rt.objects.get(ended.item["certificate"])
        )
        total = await scenario.rt.objects.get(
            "tenants/default/jobs/job-1/artifacts/total.txt"
        )
        scenario.fix()
        await scenario.redrive()
        again = await scenario.ended()

    assert (ended.status, ended.gen) == (JobStatus.SUCCEEDED, 1)
    assert [row["chunk"] for row in certificate["missing"]] == [4]
    assert (certificate["status"], certificate["tolerated"]) == ("SUCCEEDED", 1)
    assert total == b"9 1"
    assert (again.status, again.gen) == (JobStatus.SUCCEEDED, 2)
    assert again.outcomes == {"SUCCEEDED": 10}


async def test_a_job_that_cannot_succeed_any_more_starts_no_further_chunk(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIECEWORK_MAX_CHUNKS", "1")
    items = [Item(n=n, seconds=0.1, trouble="permanent" * (n < 30)) for n in range(60)]
    await scenario.submit(counting, items, tolerate="2")
    await scenario.process()
    async with scenario.reconciler():
        stopped = await scenario.ended()
        started = scenario.happened("first")
        scenario.fix()
        await retry(scenario.rt, RetryRequest(JOB, "me", "it is fixed"))
        ended = await scenario.ended()

    counts = stopped.outcomes or {}
    events = [event["event"] for event in await job_events(scenario.rt, ended)]
    assert stopped.status in {JobStatus.FAILED, JobStatus.PARTIAL}
    assert stopped.stopped_code == "job.tolerance.exceeded"
    assert counts["DEAD"] >= 3
    assert started == 60 - counts["CANCELLED"] < 60
    assert events.count("stopped") == 1
    assert (ended.status, ended.stopped_code) == (JobStatus.SUCCEEDED, "")
    chunks = await scenario.chunks()
    assert {chunk.status for chunk in chunks} == {ChunkStatus.SUCCEEDED}
    assert "stopped_code" not in await job_document(scenario.rt, ended)


@pytest.mark.parametrize(
    ("text", "chunks", "number"),
    [("2%", 100, 2), ("2%", 149, 2), ("0.5%", 1000, 5), ("20", 9, 20), (0, 9, 0)],
)
def test_a_tolerance_is_a_number_or_a_share(
    text: str | int, chunks: int, number: int
) -> None:
    assert tolerated_of(text, chunks) == number


@pytest.mark.parametrize("text", ["", "-1", "101%", "1.5", "nan", "2 %x", "many"])
def test_any_other_tolerance_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        tolerated_of(text, 100)
    assert raised.value.code == "submit.tolerance.invalid"
