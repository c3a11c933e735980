"""Guarantee: a sample forecasts a job; the rest waits for a yes, repeats nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from piecework.client import Client
from piecework.domain.priority import Priority
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.errors import UsageError
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.operate.pause import pause, resume
from piecework_orchestrator.operate.retry import RetryRequest, retry
from piecework_orchestrator.submit.submit import Submission, submit
from piecework_simulation.driver.processes import read_inputs
from tests.scenarios.command_line import COUNTING, manifest, piecework
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, counting

JOB = JobRef("default", "job-1")
#: More than a submit sends as messages, so that the job has a backlog.
ITEMS = [Item(n=n, calls=2) for n in range(80)]


async def submit_sample(
    scenario: Scenario,
    items: Sequence[Item] = ITEMS,
    *,
    sample: int = 5,
    **more: Any,
) -> set[int]:
    """Submit a job with a sample; return the numbers of its chunks."""
    asked = Submission(JOB, counting, "scenario", "tester", sample=sample, **more)
    rt = scenario.rt
    job, _ = await submit(rt, asked, read_inputs(counting, items))
    return set(job.sample)


async def ended_chunks(scenario: Scenario) -> set[int]:
    """Return the chunks that have ended."""
    return {c.ref.chunk for c in await scenario.chunks() if c.status.ended}


async def paused(scenario: Scenario) -> bool:
    """Return whether the job waits for a yes after its sample."""
    pause = (await scenario.job()).pause
    return pause is not None and pause.code == "sample"


def calls_of(scenario: Scenario) -> list[str]:
    """Return the paid calls."""
    return [line[1] for line in scenario.ledger if line[0] == "call"]


@pytest.mark.parametrize("priority", [Priority.NORMAL, Priority.LOW])
async def test_only_the_sample_runs_until_a_resume_and_no_call_is_repeated(
    scenario: Scenario, priority: Priority
) -> None:
    sample = await submit_sample(scenario, priority=priority)
    async with Client(runtime=scenario.rt) as client, scenario.worker():
        handle = client.job("job-1", counting)
        forecast = await handle.forecast()
        assert await ended_chunks(scenario) == sample
        assert len(sample) == 5
        assert len(calls_of(scenario)) == 10
        assert (forecast["status"], forecast["rest"]) == ("PAUSED", 75)
        assert forecast["calls"] == {"p50": 150, "p90": 150}
        assert forecast["tokens_in"] == {"p50": 1500, "p90": 1500}
        assert forecast["notes"][0].startswith("rough: it is of few data")

        await resume(scenario.rt, JOB, actor="me", reason="go on")
        ended = await scenario.ended()
        assert "the job has ended" in (await handle.forecast())["notes"][0]
    calls = calls_of(scenario)
    assert ended.status is JobStatus.SUCCEEDED
    assert len(calls) == len(set(calls)) == 160


async def test_a_reconciler_ends_the_sample_of_a_submit_that_died(
    scenario: Scenario,
) -> None:
    sample = await submit_sample(scenario)
    async with scenario.worker(), scenario.reconciler():
        await scenario.until(lambda: paused(scenario))
        assert await ended_chunks(scenario) == sample


async def test_a_sample_that_goes_on_needs_no_resume(scenario: Scenario) -> None:
    await submit_sample(scenario, goes_on=True)
    async with scenario.worker(), scenario.reconciler():
        ended = await scenario.ended()
    assert ended.status is JobStatus.SUCCEEDED
    assert len(calls_of(scenario)) == len(set(calls_of(scenario))) == 160


async def test_a_pause_of_the_sample_and_its_resume_leave_the_rest_waiting(
    scenario: Scenario,
) -> None:
    sample = await submit_sample(scenario)
    await pause(scenario.rt, JOB, actor="me", reason="wait")
    await resume(scenario.rt, JOB, actor="me", reason="go on")
    async with scenario.worker(), scenario.reconciler():
        await scenario.until(lambda: paused(scenario))
        assert await ended_chunks(scenario) == sample


async def test_a_resume_starts_the_rest_before_the_sample_has_ended(
    scenario: Scenario,
) -> None:
    await submit_sample(scenario, ITEMS[:8])
    await resume(scenario.rt, JOB, actor="me", reason="it is fine")
    async with scenario.worker():
        assert (await scenario.ended()).status is JobStatus.SUCCEEDED


async def test_a_job_that_was_cancelled_after_its_sample_is_retried_as_a_whole(
    scenario: Scenario,
) -> None:
    await submit_sample(scenario, ITEMS[:12])
    async with scenario.worker(), scenario.reconciler():
        await scenario.until(lambda: paused(scenario))
        await cancel(scenario.rt, JOB, actor="me", reason="too dear")
        assert (await scenario.ended()).status is JobStatus.CANCELLED
        await retry(scenario.rt, RetryRequest(JOB, "me", "it is worth it"))
        await scenario.until(lambda: gen_ended(scenario, 2))
    assert {c.status for c in await scenario.chunks()} == {ChunkStatus.SUCCEEDED}
    assert len(calls_of(scenario)) == len(set(calls_of(scenario))) == 24


async def gen_ended(scenario: Scenario, gen: int) -> bool:
    """Return whether the job has ended in a generation."""
    job = await scenario.job()
    return job.status.ended and job.gen == gen


async def test_the_command_prints_the_forecast_and_leaves_the_rest_paused(
    machine: Scenario, tmp_path: Path
) -> None:
    path = manifest(tmp_path / "rows.jsonl", ITEMS)
    submitting = ("submit", COUNTING, path, "--job-id", "job-1", "--sample", "5")
    async with machine.worker():
        done = await piecework(*submitting, "-o", "json")
        shown = await piecework("jobs", "forecast", "job-1")
        assert (done.exit_code, shown.exit_code) == (0, 0), done.stderr + shown.stderr
        assert done.document["status"] == "PAUSED"
        assert done.document["forecast"]["calls"]["p50"] == 150
        assert "5 of 5 chunks have ended" in shown.stdout
        assert "150 (P50) to 150 (P90)" in shown.stdout
        assert "piecework jobs resume job-1" in shown.stderr

        again = await piecework(*submitting, "--yes", "--wait")
        assert (again.exit_code, "SUCCEEDED" in again.stdout) == (0, True), again.stderr

        # As "no sample" it would run the whole job.
        none = await piecework(*submitting[:3], "--sample", "0")
        assert (none.exit_code, "submit.sample.invalid" in none.stderr) == (2, True)

        on = await piecework(*submitting[:2], path, "--sample", "5", "--yes", "--wait")
        assert on.exit_code == 0, on.stderr
        assert "SUCCEEDED" in on.stdout


async def test_a_submit_does_not_wait_for_a_sample_whose_budget_is_spent(
    machine: Scenario, tmp_path: Path
) -> None:
    path = manifest(tmp_path / "rows.jsonl", ITEMS)
    submitting = ("submit", COUNTING, path, "--job-id", "job-1", "--sample", "5")
    async with machine.worker(), asyncio.timeout(30):
        # Less than the estimates of the calls that start at once.
        done = await piecework(*submitting, "--budget-tokens", "5")
    assert (done.exit_code, "PAUSED (budget)" in done.stdout) == (0, True), done.stderr
    assert "next: piecework jobs set-budget job-1 --budget-tokens N" in done.stderr


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"sample": 6}, "submit.token.conflict"),
        ({"sample": 201}, "submit.sample.invalid"),
        ({"sample": -1}, "submit.sample.invalid"),
        ({"sample": 0}, "submit.sample.invalid"),
        ({"priority": Priority.HIGH}, "submit.token.conflict"),
    ],
)
async def test_a_submit_with_another_sample_or_priority_is_refused(
    scenario: Scenario, options: dict[str, Any], code: str
) -> None:
    await submit_sample(scenario, ITEMS[:12])
    with pytest.raises(UsageError) as refused:
        await submit_sample(scenario, ITEMS[:12], **options)
    assert refused.value.code == code
    await submit_sample(scenario, ITEMS[:12])  # the same one creates no second job


async def test_a_sample_of_the_whole_job_holds_nothing_back(
    scenario: Scenario,
) -> None:
    assert await submit_sample(scenario, ITEMS[:5]) == set()
    async with scenario.worker():
        assert (await scenario.ended()).status is JobStatus.SUCCEEDED
    async with Client(runtime=scenario.rt) as client:
        with pytest.raises(UsageError) as refused:
            await client.job("job-1").forecast()
    assert refused.value.code == "job.sample.missing"
    assert "`piecework jobs show job-1`" in refused.value.next_step
