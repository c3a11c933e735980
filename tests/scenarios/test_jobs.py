"""Guarantee: a job is submitted once, ends once, and accounts for every chunk."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping

import pytest

from piecework.domain import keys
from piecework.domain.chunk_input import ChunkInput
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.errors import UsageError
from piecework.jobs.manifest import read_manifest
from piecework.reconciler.loop import Reconciler
from piecework_orchestrator.reading.job_documents import job_document
from piecework_orchestrator.submit.submit import Submission, submit
from piecework_simulation.driver.processes import read_inputs
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, counting


async def test_submit_twice_is_one_job(scenario: Scenario) -> None:
    items = [Item(n=n) for n in range(30)]
    first, is_new = await scenario.submit(counting, items)
    second, is_new_again = await scenario.submit(counting, items)

    async with scenario.worker():
        ended = await scenario.ended()

    assert (is_new, is_new_again) == (True, False)
    assert first.item["created_at"] == second.item["created_at"]
    assert ended.status is JobStatus.SUCCEEDED
    assert scenario.happened("first") == 30


async def test_a_chunk_tells_what_its_calls_used_before_it_ends(
    scenario: Scenario,
) -> None:
    scenario.hold("call", 4)  # the others are answered
    await scenario.submit(counting, [Item(n=1, calls=6)])
    async with scenario.worker():

        async def told() -> Mapping[str, int]:
            document = await job_document(scenario.rt, await scenario.job())
            calls: Mapping[str, int] = document["calls"]
            return calls

        async def tells_of_calls() -> bool:
            return (await told())["paid"] > 0

        await scenario.until(tells_of_calls)
        found, [chunk] = await told(), await scenario.chunks()

    assert chunk.status is ChunkStatus.RUNNING
    assert (4, 4, 40) == (found["paid"], found["running"], found["tokens_in"])


async def test_the_same_id_with_other_content_is_refused(scenario: Scenario) -> None:
    await scenario.submit(counting, [Item(n=1)])

    with pytest.raises(UsageError) as refused:
        await scenario.submit(counting, [Item(n=2)])

    assert refused.value.code == "submit.token.conflict"


async def test_input_that_breaks_off_leaves_no_job(scenario: Scenario) -> None:
    async def breaks_off() -> AsyncIterator[ChunkInput]:
        yield ChunkInput("fine", b'{"n":1}')
        raise UsageError("line 2 is not JSON", code="input.rows.invalid_line")

    asked = Submission(JobRef("default", "job-1"), counting, "x", "tester")
    with pytest.raises(UsageError):
        await submit(scenario.rt, asked, breaks_off())

    assert await scenario.rt.jobs.read(asked.ref) is None
    assert [ref async for ref in scenario.rt.jobs.active()] == []


@pytest.mark.parametrize("step", ["written", "sent"])
async def test_half_a_submit_is_finished_by_the_reconciler(
    scenario: Scenario, step: str
) -> None:
    class CrashError(Exception):
        pass

    def crash(done: str, count: int) -> None:
        if done == step and count > 10:
            raise CrashError

    items = [Item(n=n) for n in range(150)]
    asked = Submission(JobRef("default", "job-1"), counting, "x", "tester")
    with pytest.raises(CrashError):
        await submit(scenario.rt, asked, read_inputs(counting, items), crash)

    acts = await Reconciler(scenario.later(60), scenario.log).run_pass()

    assert acts["submit finished"] == 1
    async with scenario.worker():
        ended = await scenario.ended()
    assert ended.status is JobStatus.SUCCEEDED
    assert scenario.happened("join") == 1


async def test_the_certificate_names_every_chunk(scenario: Scenario) -> None:
    items = [Item(n=n, calls=1) for n in range(300)]
    items[7] = Item(n=7, trouble="permanent")
    await scenario.submit(counting, items)

    async with scenario.worker():
        ended = await scenario.ended()

    content = await scenario.rt.objects.get(str(ended.item["certificate"]))
    certificate = json.loads(content)
    entries = read_manifest(scenario.rt.objects, ended)
    listed = {entry.chunk async for entry in entries}
    named = {int(n) for n in certificate["results"]}
    assert ended.status is JobStatus.PARTIAL
    assert keys.sha256(content) == ended.item["certificate_sha256"]
    assert listed == named | {missing["chunk"] for missing in certificate["missing"]}
    assert certificate["outcomes"] == {"DEAD": 1, "SUCCEEDED": 299}
    assert certificate["missing"] == [
        {
            "chunk": 7,
            "label": "item 7",
            "status": "DEAD",
            "error_code": "tool.stock.none",
            "compensation": "NOT_NEEDED",
        }
    ]


async def test_the_join_runs_once_and_its_artifact_is_kept(scenario: Scenario) -> None:
    job, _ = await scenario.submit(counting, [Item(n=n, calls=1) for n in range(8)])

    async with scenario.worker("w1"), scenario.worker("w2"):
        await scenario.ended()

    key = f"{keys.object_prefix('default', job.ref.job)}/artifacts/total.txt"
    assert await scenario.rt.objects.get(key) == b"16 0"
    assert scenario.happened("join") == 1


async def test_a_redrive_goes_on_where_it_stopped(scenario: Scenario) -> None:
    items = [Item(n=n, calls=3) for n in range(5)]
    items[2] = Item(n=2, calls=3, trouble="permanent")
    await scenario.submit(counting, items)

    async with scenario.worker():
        partial = await scenario.ended()
        scenario.fix()
        redriven, gen = await scenario.redrive()
        ended = await scenario.ended()

    assert (partial.status, ended.status) == (JobStatus.PARTIAL, JobStatus.SUCCEEDED)
    assert (redriven, gen) == (1, 2)
    assert scenario.happened("first", "2") == 1
    assert scenario.happened("call") == 15
    assert scenario.happened("join") == 2
