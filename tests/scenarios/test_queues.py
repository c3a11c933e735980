"""Guarantee: workers receive only from the queues of the pipelines that they serve."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.domain.job import Job
from piecework.domain.priority import Priority
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.errors import StoreError
from piecework_orchestrator.reading.job_documents import explain
from tests.scenarios.command_line import piecework
from tests.scenarios.conftest import Process, Scenario
from tests.scenarios.pipelines import Item, counting
from tests.scenarios.queued import slow

SLOW = "tests.scenarios.queued"


@pytest.fixture
def slow_queue(scenario: Scenario) -> None:
    """Deploy the queue `slow`."""
    assert scenario.aws is not None
    scenario.aws.create_queues(["slow"])


async def first_finding(scenario: Scenario, job: str) -> str:
    """Return the code of the most important finding."""
    found: dict[str, Any] = await explain(scenario.rt, await scenario.job(job))
    return str(found["findings"][0]["code"])


async def owners(scenario: Scenario, job: str) -> set[str]:
    """Return the workers that ever claimed a chunk of a job."""
    return {c.claimed_by for c in await scenario.chunks(job) if c.claimed_by}


def require_undisturbed(*jobs: Job) -> None:
    """Fail if a worker received a message of a pipeline that it does not have."""
    assert [None] * len(jobs) == [job.status_reason for job in jobs]


@pytest.mark.usefixtures("short_leases", "slow_queue")
async def test_two_fleets_with_a_queue_each_survive_a_kill_and_a_redrive(
    scenario: Scenario,
) -> None:
    items = [Item(n=n, calls=1, seconds=0.3) for n in range(12)]
    wrong = Item(n=99, trouble="permanent")
    default = await scenario.process()
    await scenario.submit(slow, [*items, wrong], "job-slow")
    await scenario.submit(counting, items, "job-fast")
    assert JobStatus.SUCCEEDED is (await scenario.ended("job-fast")).status
    # The only worker has another pipeline, and its reconciler offers it nothing.
    assert await first_finding(scenario, "job-slow") == "workers.pipeline_missing"
    assert {ChunkStatus.PENDING} == {
        c.status for c in await scenario.chunks("job-slow")
    }
    begun = scenario.happened("second")

    killed = await scenario.process("--max-chunks", "4", pipelines=SLOW)
    await scenario.until(lambda: scenario.happened("second") >= begun + 4)
    await killed.kill()
    heir = await scenario.process("--max-chunks", "4", "--no-reconcile", pipelines=SLOW)
    assert JobStatus.PARTIAL is (await scenario.ended("job-slow")).status
    assert (await owners(scenario, "job-slow")) <= {killed.name, heir.name}

    scenario.fix()
    assert (1, 2) == await scenario.redrive("job-slow")
    ended = await scenario.ended("job-slow")
    assert JobStatus.SUCCEEDED is ended.status
    require_undisturbed(ended, await scenario.job("job-fast"))
    assert default.name not in await owners(scenario, "job-slow")
    for queue in ("", "slow"):
        await scenario.until(lambda name=queue: is_empty(scenario, name))


async def is_empty(scenario: Scenario, queue: str) -> bool:
    """Return whether a queue has no message: each was deleted where it came from."""
    return await (await scenario.rt.work.named(queue)).depth() == 0


@pytest.mark.usefixtures("slow_queue")
async def test_one_worker_serves_several_queues_and_their_backlogs(
    scenario: Scenario,
) -> None:
    items = [Item(n=n) for n in range(20)]
    await scenario.submit(slow, items, "job-slow", priority=Priority.LOW)
    await scenario.submit(counting, items, "job-fast", priority=Priority.LOW)
    await scenario.process("--pipelines", SLOW, "--max-chunks", "2")
    for job in ("job-slow", "job-fast"):
        assert JobStatus.SUCCEEDED is (await scenario.ended(job)).status


@pytest.mark.usefixtures("slow_queue")
async def test_a_worker_of_another_queue_is_named_until_one_serves_it(
    scenario: Scenario,
) -> None:
    await scenario.submit(slow, [Item(n=1)])
    other: Process = await scenario.process("--queue", "default", pipelines=SLOW)

    async def is_missing() -> bool:
        return await first_finding(scenario, "job-1") == "workers.queue_missing"

    await scenario.until(is_missing)
    told = await piecework("jobs", "explain", "job-1", "-o", "json")
    (finding,) = told.document["findings"]
    assert finding["next"] == "piecework worker --pipelines MODULE --queue slow"
    await other.stop()
    await scenario.process("--queue", "slow", pipelines=SLOW)
    assert JobStatus.SUCCEEDED is (await scenario.ended()).status


async def test_a_queue_that_is_not_deployed_is_refused_before_anything_is_written(
    machine: Scenario,
) -> None:
    with pytest.raises(StoreError, match="work_slow is not deployed") as refused:
        await machine.submit(slow, [Item(n=1)])
    assert (refused.value.code, refused.value.exit_code) == (
        "aws.queue.not_deployed",
        2,
    )
    assert [] == [ref async for ref in machine.rt.jobs.listed("default")]
    worker = await machine.process(pipelines=SLOW)
    assert 2 == await worker.process.wait()
