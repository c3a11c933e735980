"""Guarantee: a job's page asks a person only for what no worker can mend."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from piecework import Context, PermanentError, Pipeline, Stage
from piecework.domain.chunk import Chunk
from piecework.domain.outcome import ANSWER, CHANGED_CODE, TIMER
from piecework.domain.refs import JobRef
from piecework_examples.quickstart import Paragraph
from piecework_orchestrator.ui import attention
from piecework_orchestrator.ui.app import words
from piecework_orchestrator.ui.attention import Lists, kind_of, may_be_in_doubt
from piecework_simulation.in_process import worker_beside
from tests.ui.conftest import Deployment, Page
from tests.ui.test_actions import pay

JOB = JobRef("default", "j-1")


def chunk_of(number: int = 0, **item: Any) -> Chunk:
    return Chunk.read(JOB.chunk(number), {"gen": 1, **item})


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        ({"status": "DEAD"}, "dead"),
        ({"status": "WAITING", "error_code": CHANGED_CODE}, "stopped"),
        ({"status": "WAITING", "blocked_on": ANSWER}, "asks"),
        ({"status": "WAITING", "blocked_on": TIMER}, "waits"),
        ({"status": "WAITING", "blocked_on": "model"}, "waits"),
        ({"status": "RUNNING"}, "runs"),
        ({"status": "PENDING"}, ""),
        ({"status": "SUCCEEDED"}, ""),
        ({"status": "CANCELLED"}, ""),
    ],
)
def test_only_what_no_worker_can_mend_needs_a_person(
    item: dict[str, str], kind: str
) -> None:
    assert kind == kind_of(chunk_of(**item), frozenset())


def test_a_discarded_chunk_needs_nobody() -> None:
    dead = chunk_of(3, status="DEAD")
    assert ("dead", "") == (kind_of(dead, {4}), kind_of(dead, {3}))
    lists = Lists(0.0, closed={3})
    lists.add_letters(JOB, {3: "a.b.c", 4: "a.b.c"})
    assert [4] == [row["chunk"] for row in lists.for_people]


@pytest.mark.parametrize(
    ("item", "doubtful"),
    [
        ({"status": "DEAD", "effects_in_doubt": 1}, True),
        ({"status": "SUCCEEDED", "effects_in_doubt": 1}, True),
        # No worker counts what a lost claim left before a cancel.
        ({"status": "CANCELLED", "lost_fences": {1}}, True),
        ({"status": "CANCELLED"}, False),
        ({"status": "DEAD"}, False),
        ({"status": "SUCCEEDED", "lost_fences": {1}}, False),
        # A worker resolves it, or ends the chunk.
        ({"status": "RUNNING", "effects_in_doubt": 1}, False),
        ({"status": "WAITING", "lost_fences": {1}}, False),
    ],
)
def test_the_ledger_of_a_chunk_is_read_only_if_nobody_else_will(
    item: dict[str, Any], *, doubtful: bool
) -> None:
    assert doubtful is may_be_in_doubt(chunk_of(**item))


def test_the_lists_of_a_large_job_have_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attention, "MAX_LISTED", 2)
    monkeypatch.setattr(attention, "MAX_DOUBTFUL", 3)
    lists = Lists(0.0)
    for number in range(5):
        lists.add(chunk_of(number, status="DEAD", effects_in_doubt=1))
        lists.add(chunk_of(10 + number, status="RUNNING"))
    assert [0, 1] == [row["chunk"] for row in lists.for_people]
    assert [10, 11] == [row["chunk"] for row in lists.at_work]
    assert (3, 2) == (len(lists.doubtful), lists.more_doubtful)


def test_a_person_reads_no_dictionary() -> None:
    assert words({"DEAD": 2, "SUCCEEDED": 1}) == "2 DEAD, 1 SUCCEEDED"
    assert words(["a", 1]) == "a, 1"
    assert words("a") == "a"


async def pay_or_fail(ctx: Context[Paragraph]) -> str:
    """Fail, or charge a card whose answer comes too late."""
    if ctx.payload.text == "broken":
        message = "no"
        raise PermanentError(message)
    return await pay(ctx)


async def test_an_effect_in_doubt_is_resolved_first_also_while_its_job_runs_again(
    deployment: Deployment, page: Page
) -> None:
    stages = [Stage(pay_or_fail, name="pay")]
    pipeline = Pipeline("pay", payload=Paragraph, stages=stages)
    rows = [Paragraph(text=text) for text in ("x", "broken")]
    job = await deployment.client.submit(pipeline, rows, id="j-1")
    async with worker_beside(deployment.aws, {"pay": pipeline}, [__name__]):
        await job.wait(timeout=20)
    for path in ("/jobs/j-1", "/jobs/j-1/chunks/0"):
        _, shown = await page.get(path)
        acts = re.findall(r"/actions/(resolve|redrive)\?", shown)
        assert acts[:2] == ["resolve", "redrive"], path
    assert "has 1 effect in doubt:" in (await page.get("/"))[1]

    await job.redrive("it is mended", chunks=[1])
    async with asyncio.timeout(20):
        while '"status RUNNING">RUNNING</span> · 1 of 2 chunks' not in shown:
            await asyncio.sleep(0.05)  # until the page reads its job again
            _, shown = await page.get("/jobs/j-1")
    assert "/actions/resolve?" in shown
    # Nothing waits for a person in a chunk that does not wait for one.
    assert "/actions/resolve?" not in (await page.get("/jobs/j-1/chunks/1"))[1]


async def test_the_bar_of_a_partial_job_is_not_all_green(
    deployment: Deployment, page: Page
) -> None:
    job = await deployment.submit("j-1", "one", "broken")
    async with deployment.worker():
        await job.wait(timeout=20)
    for path in ("/", "/jobs/j-1"):
        _, shown = await page.get(path)
        bar = shown.partition('<svg class="meter"')[2].partition("</svg>")[0]
        widths = re.findall(r'class="cell (\w+)" x="[\d.]+" width="([\d.]+)"', bar)
        assert widths == [("SUCCEEDED", "500.0"), ("DEAD", "500.0")]


async def test_a_job_names_the_code_of_the_workers_that_run_its_pipeline(
    deployment: Deployment, page: Page
) -> None:
    job = await deployment.submit("j-1", "one", "hold")
    async with deployment.worker():
        await anext(job.results())
        _, shown = await page.get("/jobs/j-1")
        version = (await job.chunk(0))["code_version"]
        assert f"<code>{version}</code> 1 worker</dd>" in shown
        deployment.go_on.set()
        await job.wait(timeout=20)
