"""Guarantee: a job never spends more than its budget and its calls in flight."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from piecework.domain.budget import Cap, parse_cap
from piecework.domain.job import Job
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.errors import UsageError
from piecework.jobs.budgeting import review_pause, set_budget
from piecework_orchestrator.reading.job_documents import explain, job_document
from tests.scenarios.command_line import piecework
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, counting

JOB = JobRef("default", "job-1")
#: A call of `counting` uses 10 tokens; its estimate is 1.
TOKENS = 10


async def paused(scenario: Scenario, job: str = "job-1") -> Job:
    """Wait until a job is paused by its budget, and no chunk of it runs."""

    async def is_quiet() -> bool:
        running = [c.status is ChunkStatus.RUNNING for c in await scenario.chunks(job)]
        return (await scenario.job(job)).pause is not None and not any(running)

    await scenario.until(is_quiet)
    return await scenario.job(job)


async def test_at_the_cap_a_job_is_paused_and_a_higher_cap_resumes_it(
    scenario: Scenario,
) -> None:
    cap = parse_cap(None, 500)
    items = [Item(n=n, calls=25) for n in range(4)]
    await scenario.submit(counting, items, budget=cap)
    async with scenario.worker("w1"), scenario.worker("w2"), scenario.reconciler():
        job = await paused(scenario)
        made = scenario.happened("call")
        # Four calls of each chunk are in flight at most.
        assert 500 <= made * TOKENS <= 500 + 16 * TOKENS
        assert (job.status, job.pause and job.pause.code) == ("PAUSED", "budget")
        assert {c.attempts for c in await scenario.chunks()} == {0}

        shown = (await piecework("jobs", "show", "job-1", "-o", "json")).document
        assert shown["budget"]["spent_tokens"] == made * TOKENS
        assert (shown["budget"]["reserved_tokens"], 500) == (
            0,
            shown["budget"]["cap_tokens"],
        )
        first = (await explain(scenario.rt, job))["findings"][0]
        assert (first["code"], first["next"]) == (
            "job.budget_spent",
            "piecework jobs set-budget job-1 --budget-tokens N",
        )

        # A cap that is spent already would pause the job again.
        low = await piecework(
            "jobs", "set-budget", "job-1", "--budget-tokens", "100", "-o", "json"
        )
        assert low.document["status"] == "PAUSED"
        assert low.document["budget"]["cap_tokens"] == 100

        more = ("--budget-tokens", "2000", "--reason", "more", "-o", "json")
        raised = await piecework("jobs", "set-budget", "job-1", *more)
        assert raised.document["status"] == "RUNNING"
        ended = await scenario.ended()

    calls = Counter(line[1] for line in scenario.ledger if line[0] == "call")
    assert ended.status is JobStatus.SUCCEEDED
    assert (len(calls), set(calls.values())) == (100, {1})
    assert {c.attempts for c in await scenario.chunks()} == {1}
    assert (await job_document(scenario.rt, ended))["budget"]["spent_tokens"] == 1000


@pytest.mark.usefixtures("short_leases")
async def test_what_a_killed_worker_spent_is_counted_by_the_record_of_its_calls(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piecework.resilience.budget.SLICE_LASTS", 5_000_000)
    items = [Item(n=n, calls=40) for n in range(4)]
    await scenario.submit(counting, items, budget=parse_cap(None, 1000))
    scenario.hold("call", 10)
    victim = await scenario.process("--no-reconcile")
    await scenario.until(lambda: scenario.happened("call") >= 4 * 14)
    await victim.kill()
    scenario.release("call")
    lost = scenario.happened("call")
    async with scenario.worker("heir"), scenario.reconciler():
        job = await paused(scenario)

        async def recounted() -> bool:
            budget = await scenario.rt.budgets.of_job(await scenario.job())
            return budget is not None and budget.recounts > 0

        await scenario.until(recounted)
        await paused(scenario)
        spent = (await job_document(scenario.rt, job))["budget"]
        made = scenario.happened("call")
        # What was in flight at the kill, or not in the journal yet, was paid again.
        assert made * TOKENS <= 1000 + 2 * 16 * TOKENS
        assert spent["spent_tokens"] + spent["uncertain_tokens"] >= 1000 - 2 * TOKENS
        assert spent["spent_tokens"] <= made * TOKENS
        assert lost < made
        await set_budget(
            scenario.rt, await scenario.job(), Cap(5000), actor="me", reason="more"
        )
        ended = await scenario.ended()
    assert ended.status is JobStatus.SUCCEEDED


async def test_two_jobs_share_the_daily_budget_of_their_tenant(
    machine: Scenario,
) -> None:
    rt = machine.rt
    budget = ("budgets", "set", "default", "--daily-tokens")
    await piecework(*budget, "600", "-o", "json")
    for job in ("one", "two"):
        items = [Item(n=n, calls=30) for n in range(2)]
        await machine.submit(counting, items, job)
    async with machine.worker("w1"), machine.worker("w2"):
        jobs = [await paused(machine, job) for job in ("one", "two")]
        made = machine.happened("call")
        assert 600 <= made * TOKENS <= 600 + 16 * TOKENS
        rows = (await piecework("budgets", "list", "-o", "json")).document
        assert [(600, made * TOKENS, 0)] == [
            (r["cap_tokens"], r["spent_tokens"], r["reserved_tokens"]) for r in rows
        ]
        for job in jobs:
            first = (await explain(rt, job))["findings"][0]
            assert first["code"] == "tenant.budget_spent"
            assert first["next"] == "piecework budgets set default --daily-tokens N"
            assert job.pause is not None
            assert first["until"] == job.pause.until
            assert job.pause.until.endswith("T00:00:00.000Z")

        # One job goes on with the next day, both with a higher budget.
        assert not await review_pause(rt, jobs[0])
        tomorrow = replace(rt, clock=lambda: rt.clock() + 86_400.0)
        assert await review_pause(tomorrow, jobs[0])
        await paused(machine, "one")
        raised = await piecework(*budget, "5000", "-o", "json")
        assert raised.document["cap_tokens"] == 5000
        ended = [await machine.ended(job) for job in ("one", "two")]

    calls = Counter(tuple(line[1:]) for line in machine.ledger if line[0] == "call")
    assert {job.status for job in ended} == {JobStatus.SUCCEEDED}
    assert (len(calls), set(calls.values())) == (120, {1})


async def test_a_repeated_submit_cannot_change_the_budget(scenario: Scenario) -> None:
    items = [Item(n=1)]
    await scenario.submit(counting, items, budget=Cap(500))
    await scenario.submit(counting, items)
    await scenario.submit(counting, items, budget=Cap(500))
    with pytest.raises(UsageError, match="its budget is 500 tokens, not 600") as other:
        await scenario.submit(counting, items, budget=Cap(600))
    assert other.value.code == "submit.token.conflict"
    assert other.value.next_step.endswith("set-budget job-1 --budget-tokens N`")
    none = await piecework("jobs", "set-budget", "job-1", "--budget-usd", "3")
    assert "job.budget.none" in none.stderr
    wrong = await piecework("jobs", "set-budget", "job-1", "--budget-usd", "-3")
    assert "submit.budget.invalid" in wrong.stderr


async def test_run_ends_once_its_budget_is_spent(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PRICED)
    rows = "\n".join(json.dumps({"text": f"row {n}"}) for n in range(30))
    (tmp_path / "rows.jsonl").write_text(rows)
    command = [sys.executable, "-m", "piecework_orchestrator", "run"]
    spends = ("app:priced", "rows.jsonl", "--budget-usd", "0.10", "--max-chunks", "1")
    told = await asyncio.to_thread(
        subprocess.run,
        [*command, *spends],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "0.10 USD are spent" in told.stderr
    assert (told.stdout.count("SUCCEEDED"), told.returncode) == (10, 4)
    refused = await asyncio.to_thread(
        subprocess.run,
        [*command, "app:unpriced", "rows.jsonl", "--budget-usd", "0.10"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "submit.budget.no_price" in refused.stderr


#: A call costs one cent, by its estimate and by its usage.
PRICED = """
from pydantic import BaseModel

from piecework import Dependency, Usage, pipeline

model = Dependency(
    "model",
    layer="llm",
    usage=lambda answer: Usage(tokens_in=5, usd=0.01),
    estimate_usd=lambda text: 0.01,
)
other = Dependency("other", layer="llm")


class Row(BaseModel):
    text: str


@model.call
async def ask(text: str) -> str:
    return text.upper()


@other.call
async def ask_other(text: str) -> str:
    return text.upper()


@pipeline
async def priced(row: Row) -> str:
    return await ask(row.text)


@pipeline
async def unpriced(row: Row) -> str:
    return await ask_other(row.text)
"""
