"""Guarantee: a stage maps rows through a child job without a worker, and pays once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from piecework.domain.budget import parse_cap
from piecework.domain.child import PARENT_CANCELLED_CODE
from piecework.domain.outcome import CHILD_JOB
from piecework.domain.pause import PauseCode
from piecework.domain.priority import Priority
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.errors import UsageError
from piecework.jobs.budgeting import set_budget
from piecework.store.children import children_of, has_children
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.operate.pause import pause, resume
from piecework_orchestrator.operate.retry import RetryRequest, retry
from piecework_orchestrator.reading.job_documents import Document, explain
from piecework_worker import executor
from tests.scenarios.command_line import piecework
from tests.scenarios.conftest import Scenario
from tests.scenarios.mapping import Tree, drifting, forests, needy, trees, walking

JOB = JobRef("default", "job-1")


async def child_of(scenario: Scenario, job: str = "job-1") -> str:
    """Return the only child of a job."""
    parent = JobRef("default", job)
    [row] = [row async for row in children_of(scenario.rt.table, parent)]
    return row.job


async def findings_of(scenario: Scenario, job: str) -> dict[str, Document]:
    """Return the findings of a job by their codes."""
    found = (await explain(scenario.rt, await scenario.job(job)))["findings"]
    return {each["code"]: each for each in found}


async def first_finding(scenario: Scenario, job: str) -> Document:
    """Return the first finding of a job."""
    return next(iter((await findings_of(scenario, job)).values()))


async def waits(scenario: Scenario) -> bool:
    """Return whether every chunk waits for a child without an owner."""
    chunks = await scenario.chunks()
    return all(
        (c.status, c.blocked_on) == (ChunkStatus.WAITING, CHILD_JOB) for c in chunks
    )


async def test_a_stage_that_maps_has_no_worker_and_pays_once(
    scenario: Scenario,
) -> None:
    await scenario.submit(trees, [Tree(n=1, rows=5, bad=2)])
    scenario.hold("leaf", since=104)
    async with scenario.worker(), scenario.reconciler():
        await scenario.until(lambda: scenario.happened("held", "leaf"))
        [chunk] = await scenario.chunks()
        assert await waits(scenario)
        assert (chunk.attempts, chunk.claimed_by) == (0, "")
        child = await scenario.job(await child_of(scenario))
        assert child.lineage == ["trees"]

        async def four_ended() -> bool:
            ended = [c.status.ended for c in await scenario.chunks(child.ref.job)]
            return sum(ended) == 4

        await scenario.until(four_ended)
        first = await first_finding(scenario, "job-1")
        assert (first["code"], first["next"]) == (
            "child.waiting",
            f"piecework jobs explain {child.ref.job}",
        )
        codes = await findings_of(scenario, child.ref.job)
        assert codes["parent.waiting"]["next"] == "piecework jobs explain job-1"
        listed = (await piecework("jobs", "list", "-o", "json")).document
        assert [job.get("parent_job") for job in listed] == ["job-1", None]
        shown = (await piecework("jobs", "show", child.ref.job)).stdout
        assert "chunk 0 of job-1, stage spread" in shown
    scenario.release("leaf")
    async with scenario.worker("w2"), scenario.reconciler():
        ended = await scenario.ended()
    assert ended.status is JobStatus.SUCCEEDED
    [chunk] = await scenario.chunks()
    assert (chunk.value, chunk.attempts) == (str(100 + 101 + 103 + 104), 1)
    assert scenario.ledger.count(["mapped", "1", "PARTIAL", "2"]) == 1
    assert scenario.happened("plan") == 1
    assert scenario.happened("leaf") == 4


async def test_rows_that_differ_in_each_run_start_no_children_without_end(
    scenario: Scenario,
) -> None:
    await scenario.submit(drifting, [Tree(n=1, rows=2)])
    async with scenario.worker(), scenario.reconciler():
        assert (await scenario.ended()).status is JobStatus.FAILED
    [letter] = await scenario.letter_rows()
    assert letter.error_code == "runtime.map.rows_unstable"
    children = [row.job async for row in children_of(scenario.rt.table, JOB)]
    assert len(children) == 3
    assert children[0] in letter.error
    assert scenario.happened("leaf") == 6


async def test_a_stage_maps_one_after_the_other(scenario: Scenario) -> None:
    await scenario.submit(walking, [Tree(n=1, rows=6)])
    async with scenario.worker(), scenario.reconciler():
        assert (await scenario.ended()).status is JobStatus.SUCCEEDED
    assert [c.value for c in await scenario.chunks()] == ["6"]
    assert scenario.happened("leaf") == 6


async def test_two_parents_on_one_slot_end(scenario: Scenario) -> None:
    await scenario.submit(forests, [Tree(n=n) for n in range(2)])
    async with (
        scenario.worker(settings=replace(scenario.rt.settings, max_chunks=1)),
        scenario.reconciler(),
    ):
        ended = await scenario.ended()
    assert ended.status is JobStatus.SUCCEEDED
    assert [c.value for c in await scenario.chunks()] == ["3", "303"]
    assert scenario.happened("leaf") == 6


async def test_a_cancel_reaches_all_below_and_a_retry_pays_nothing_twice(
    scenario: Scenario,
) -> None:
    await scenario.submit(forests, [Tree(n=1, rows=4)])
    scenario.hold("leaf", since=102)
    async with scenario.worker(), scenario.reconciler():
        await scenario.until(lambda: scenario.happened("held", "leaf"))
        await scenario.until(lambda: scenario.happened("leaf") == 2)
        await asyncio.sleep(1.0)
        await cancel(scenario.rt, JOB, actor="me", reason="enough")
        tree = await child_of(scenario)
        leaves = await child_of(scenario, tree)
        for job in (leaves, tree, "job-1"):
            assert (await scenario.ended(job)).status is JobStatus.CANCELLED
        assert (await scenario.job(leaves)).cancel_code == PARENT_CANCELLED_CODE
        scenario.release("leaf")
        await retry(scenario.rt, RetryRequest(JOB, "me", "go on"))
        assert (await scenario.ended()).status is JobStatus.SUCCEEDED
    assert [c.value for c in await scenario.chunks()] == [str(100 + 101 + 102 + 103)]
    assert scenario.happened("leaf") == 4
    assert scenario.happened("plan") == 1


async def test_a_pause_of_a_parent_holds_its_children_and_a_resume_lets_them_go(
    scenario: Scenario,
) -> None:
    await scenario.submit(forests, [Tree(n=1, rows=4, seconds=4.0)])
    async with scenario.worker(), scenario.reconciler():
        await scenario.until(lambda: scenario.happened("plan"))
        await scenario.until(lambda: waits(scenario))
        tree = await child_of(scenario)
        await scenario.until(lambda: has_child(scenario, tree))
        leaves = await child_of(scenario, tree)
        await pause(scenario.rt, JOB, actor="me", reason="look")

        async def held() -> bool:
            pauses = [(await scenario.job(job)).pause for job in (tree, leaves)]
            return [p and p.code for p in pauses] == [PauseCode.PARENT] * 2

        await scenario.until(held)
        found = await findings_of(scenario, tree)
        assert found["parent.paused"]["next"] == "piecework jobs resume job-1"
        with pytest.raises(UsageError) as refused:
            await resume(scenario.rt, JobRef("default", tree), actor="me", reason="")
        assert refused.value.code == "job.parent.paused"
        await asyncio.sleep(10.0)
        assert not scenario.happened("leaf")
        await resume(scenario.rt, JOB, actor="me", reason="seen")
        assert (await scenario.ended()).status is JobStatus.SUCCEEDED
    assert scenario.happened("leaf") == 4


async def test_a_priority_reaches_the_children_and_the_bill_has_their_cost(
    scenario: Scenario,
) -> None:
    """The parent has no backlog of its own: all its chunks had a message at once."""
    await scenario.submit(trees, [Tree(n=1, rows=70, seconds=30.0)])
    async with scenario.worker(), scenario.reconciler():
        await scenario.until(lambda: has_child(scenario, "job-1"))
        child = await child_of(scenario)
        await piecework("jobs", "set-priority", "job-1", "low", "--reason", "calm")
        for job in ("job-1", child):
            assert (await scenario.job(job)).priority is Priority.LOW
        assert (await scenario.ended()).status is JobStatus.SUCCEEDED
    refused = await piecework("jobs", "set-priority", "job-1", "high")
    assert (refused.exit_code, "has ended" in refused.stderr) == (2, True)
    below = (await piecework("jobs", "cost", "job-1", "-o", "json")).document
    assert (below["children"]["jobs"], below["children"]["unpriced"]) == (1, 1)
    own = (await piecework("jobs", "cost", child, "-o", "json")).document
    assert own["children"] is None
    assert below["children"]["total_usd"] == pytest.approx(own["total_usd"])
    assert "1 job, 0." in (await piecework("jobs", "cost", "job-1")).stdout


async def test_a_deadline_of_the_parent_ends_all_below(scenario: Scenario) -> None:
    items = [Tree(n=1, rows=2, seconds=3600.0)]
    await scenario.submit(forests, items, deadline_s=8.0)
    async with scenario.worker(), scenario.reconciler():
        assert (await scenario.ended()).status is JobStatus.CANCELLED
        tree = await child_of(scenario)
        for job in (tree, await child_of(scenario, tree)):
            assert (await scenario.ended(job)).status is JobStatus.CANCELLED


async def test_children_spend_the_budget_of_the_root_and_wait_for_a_higher_one(
    scenario: Scenario,
) -> None:
    items = [Tree(n=n, rows=4) for n in range(3)]
    await scenario.submit(forests, items, budget=parse_cap(None, 60))
    async with scenario.worker(), scenario.reconciler():
        await scenario.until(lambda: has_status(scenario, "job-1", JobStatus.PAUSED))
        root = await scenario.job()
        assert root.pause is not None
        assert root.pause.code == PauseCode.BUDGET
        assert scenario.happened("leaf") * 10 <= 60 + 12 * 10
        tree = await first_child(scenario)
        below, more = await scenario.job(tree), parse_cap(None, 1000)
        with pytest.raises(UsageError) as refused:
            await set_budget(scenario.rt, below, more, actor="me", reason="")
        assert refused.value.code == "job.budget.of_root"
        await set_budget(scenario.rt, root, more, actor="me", reason="more")
        assert (await scenario.ended()).status is JobStatus.SUCCEEDED
    assert scenario.happened("leaf") == 12


async def test_a_child_that_the_budget_has_no_room_for_is_refused(
    scenario: Scenario,
) -> None:
    """The first child shows what a row spends; the second one is forecast by it."""
    items = [Tree(n=1, rows=4), Tree(n=2, rows=40, delay=30.0)]
    await scenario.submit(trees, items, budget=parse_cap(None, 120))
    async with scenario.worker(), scenario.reconciler():
        ended = await scenario.ended()
    assert ended.status is JobStatus.PARTIAL
    [letter] = await scenario.letter_rows()
    assert letter.error_code == "runtime.map.over_budget"
    assert "needs about 400 tokens" in letter.error
    assert scenario.happened("leaf") == 4


async def test_a_redrive_of_the_child_lets_the_parent_go_on_paid_once(
    scenario: Scenario,
) -> None:
    await scenario.submit(needy, [Tree(n=1, rows=3, bad=1)])
    async with scenario.worker(), scenario.reconciler():
        assert (await scenario.ended()).status is JobStatus.FAILED
        [letter] = await scenario.letter_rows()
        assert letter.error_code == "runtime.map.row_failed"
        scenario.fix()
        child = await child_of(scenario)
        await scenario.redrive(child)
        await scenario.redrive()  # it waits for the child, which runs again
        assert (await scenario.ended()).status is JobStatus.SUCCEEDED
    assert [c.value for c in await scenario.chunks()] == ["303"]
    assert scenario.happened("leaf") == 3


async def first_child(scenario: Scenario) -> str:
    """Return one child of the job."""
    rows = [row async for row in children_of(scenario.rt.table, JOB)]
    return rows[0].job


async def has_child(scenario: Scenario, job: str) -> bool:
    """Return whether a job has started a child."""
    return await has_children(scenario.rt.table, JobRef("default", job))


async def has_status(scenario: Scenario, job: str, status: JobStatus) -> bool:
    """Return whether a job has a status."""
    return (await scenario.job(job)).status is status


async def nothing(*_: object) -> None:
    """Do nothing, as a worker that dies right after its settlement."""


async def test_what_a_dead_worker_left_between_parent_and_child_is_done_by_others(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No child is fanned out, and no parent is told, by the worker that settled."""
    monkeypatch.setattr(executor, "follow_children_of", nothing)
    await scenario.submit(forests, [Tree(n=n) for n in range(2)])
    async with scenario.worker(), scenario.reconciler():
        ended = await scenario.ended(within=600.0)
    assert ended.status is JobStatus.SUCCEEDED
    assert [c.value for c in await scenario.chunks()] == ["3", "303"]
    assert scenario.happened("leaf") == 6


async def test_a_killed_worker_starts_no_second_child(
    scenario: Scenario, short_leases: None
) -> None:
    await scenario.submit(trees, [Tree(n=1, rows=4)])
    scenario.hold("leaf", since=102)
    process = await scenario.process(pipelines="tests.scenarios.mapping")
    await scenario.until(lambda: scenario.happened("held", "leaf"))
    await asyncio.sleep(0.5)
    await process.kill()
    scenario.release("leaf")
    await scenario.process(pipelines="tests.scenarios.mapping")
    async with scenario.reconciler():
        assert (await scenario.ended()).status is JobStatus.SUCCEEDED
    assert scenario.happened("plan") == 1
    assert scenario.happened("leaf") <= 5
    await child_of(scenario)
