"""Guarantee: an action shows its effect first, asks for a reason, and is recorded."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from html import escape
from typing import Any

import pytest

from piecework import Dependency, Effect, Ladder, Pipeline, Stage, TransientError
from piecework_examples.quickstart import Paragraph
from piecework_orchestrator.cost.job import deletion_terms
from piecework_orchestrator.reading.job_documents import require_job
from piecework_orchestrator.ui import letter_actions
from piecework_orchestrator.ui.actions import ACTIONS
from piecework_simulation.in_process import worker_beside
from tests.ui.conftest import Deployment, Page, kept_in

bank = Dependency("bank", effect=Effect.NON_IDEMPOTENT, timeout=0.05)
till = Dependency("till", effect=Effect.PROVIDER_IDEMPOTENT)


@bank.call
async def charge(cents: int) -> str:
    """Charge a card; the answer comes too late."""
    await asyncio.sleep(5)
    return f"paid {cents}"


@till.call
async def bill(cents: int, *, idempotency_key: str) -> str:
    """Charge a card; the till knows its key."""
    return f"{idempotency_key[:1]}{cents}"


def shop(stage: Callable[[Any], Any]) -> Pipeline:
    """Return a version of a pipeline with one stage."""
    stages = [Stage(stage, name="count")]
    ladder = Ladder(retry_after_s=[0.1])
    return Pipeline("shop", payload=Paragraph, stages=stages, ladder=ladder)


async def pay(_: object) -> str:
    """Charge a card once, for a chunk or for all."""
    return await charge(100)


async def perform(page: Page, path: str, **fields: str) -> str:
    """Post an action's form as its page has it, and return the page of its outcome."""
    async with asyncio.timeout(20):
        _, form = await page.get(path)
        status, text = await page.post(path, shown=kept_in(form, "shown"), **fields)
        assert status == 200, text
        while "Running. This page follows it." in text:
            await asyncio.sleep(0.05)
            _, text = await page.get("/tasks/1")
    return text


async def test_a_cancel_counts_its_chunks_and_keeps_the_reason(
    deployment: Deployment, page: Page
) -> None:
    job = await deployment.submit("j-1", "one", "hold", "hold")
    async with deployment.worker():
        await anext(job.results())
        _, form = await page.get("/actions/cancel?job=j-1")
        assert "2 open chunks will be stopped." in form
        assert "1 chunk with a result will keep it." in form
        text = await perform(page, "/actions/cancel?job=j-1", reason="wrong input")
        assert "Job j-1 is CANCEL" in text
        view = await job.wait(timeout=20)
    cancel = view.document["cancel"]
    told = (cancel["cancelled_by"], cancel["cancel_reason"])
    assert told == ("ann@desk", "wrong input")
    _, shown = await page.get("/jobs/j-1")
    assert "/actions/retry?job=j-1" in shown
    assert "/actions/cancel" not in shown
    assert "2 chunks of job j-1 will run" in await perform(
        page, "/actions/retry?job=j-1", reason="right after all"
    )


async def test_a_deletion_says_first_what_the_command_says_that_it_takes(
    deployment: Deployment, page: Page
) -> None:
    job = await deployment.submit("j-1", "one", "broken")
    async with deployment.worker():
        await job.wait(timeout=20)
    terms = await deletion_terms(job.rt, await require_job(job.rt, "j-1"))
    assert re.fullmatch(r"takes \d+ write units, about 0\.\d+ USD, and .*", terms)
    _, form = await page.get("/actions/delete?job=j-1")
    assert f"This {terms}." in form
    text = await perform(page, "/actions/delete?job=j-1", reason="the customer left")
    assert "Job j-1 is DELETED." in text


async def test_a_job_is_paused_with_a_reason_and_resumed(
    deployment: Deployment, page: Page
) -> None:
    await deployment.submit("j-1", "one")
    text = await perform(page, "/actions/pause?job=j-1", reason="price change")
    assert "Job j-1 is PAUSED" in text
    _, shown = await page.get("/jobs/j-1")
    assert "operator: price change (by ann@desk" in shown
    assert "/actions/pause" not in shown
    text = await perform(page, "/actions/resume?job=j-1", reason="agreed")
    assert "Job j-1 is RUNNING" in text
    assert "It is not paused." in (await page.get("/actions/resume?job=j-1"))[1]


async def test_a_pinned_job_names_its_version_and_is_unpinned(
    deployment: Deployment, page: Page
) -> None:
    job = await deployment.submit("j-1", "one", pin=True)
    version = (await job.facts()).document["pinned_to"]
    _, shown = await page.get("/jobs/j-1")
    assert f"<code>{version}</code>" in shown
    assert "/actions/unpin?job=j-1" in shown
    text = await perform(page, "/actions/unpin?job=j-1", reason="it is gone")
    assert "Job j-1 is not pinned any more." in text
    _, shown = await page.get("/jobs/j-1")
    assert "/actions/unpin" not in shown
    assert "It is not pinned." in (await page.get("/actions/unpin?job=j-1"))[1]
    told = [event["facts"] for event in await job.events()]
    assert {
        "actor": "ann@desk",
        "code_version": version,
        "reason": "it is gone",
    } in told


async def test_changes_are_accepted_after_both_sides_are_shown(
    deployment: Deployment, page: Page
) -> None:
    async def bills(_: object) -> int:
        await bill(100)
        message = "later"
        raise TransientError(message, code="tool.x.y")

    async def counts(_: object) -> int:
        return 1

    job = await deployment.client.submit(shop(bills), [Paragraph(text="one")], id="j-1")
    for version, stage in (("1", bills), ("2", counts)):
        aws = deployment.aws
        aws.settings = replace(aws.settings, code_version=version)
        async with worker_beside(aws, {"shop": shop(stage)}, [__name__]):
            async with asyncio.timeout(20):
                while True:
                    chunk = await job.chunk(0)
                    if (chunk["status"], chunk.get("code_version")) == (
                        "WAITING",
                        version,
                    ):
                        break
                    await asyncio.sleep(0.05)

    for path in ("/jobs/j-1", "/jobs/j-1/chunks/0"):
        _, shown = await page.get(path)
        assert "bill of till in count: <strong>DONE</strong>" in shown
        assert "it has not asked for what an earlier claim did" in shown
    assert "/actions/accept-changes?job=j-1" in (await page.get("/jobs/j-1"))[1]
    path = "/actions/accept-changes?job=j-1"
    _, form = await page.get(path)
    assert "1 chunk will go on by newer code; 0 chunks" in form
    assert "The new code does not know that, and may do it again." in form
    text = await perform(page, path, reason="it was <cheap>", code_version="2")
    assert "Newer code goes on with the chunks of job j-1." in text
    told = [event["facts"] for event in await job.events()]
    facts = {"actor": "ann@desk", "reason": "it was <cheap>", "code_version": "2"}
    assert facts in told


async def test_a_pipeline_is_paused_with_a_reason_and_resumed(
    deployment: Deployment, page: Page
) -> None:
    job = await deployment.submit("j-1", "one")
    by_hand = await deployment.submit("j-2", "one")
    await by_hand.pause("later")
    path = "/actions/pause-pipeline?pipeline=word-count"
    _, form = await page.get(path)
    assert "1 job will wait" in form
    assert ("j-1" in form, "j-2" in form) == (True, False)
    text = await perform(page, path, reason="wrong <prompt>")
    assert "1 job of pipeline word-count paused." in text
    [pause] = [each["pause"] for each in await deployment.client.pipelines()]
    assert (pause["actor"], pause["message"]) == ("ann@desk", "wrong <prompt>")
    _, shown = await page.get("/")
    assert "is paused:</strong> wrong &lt;prompt&gt;" in shown
    resume = "/actions/resume-pipeline?pipeline=word-count"
    assert (resume in shown, path in shown) == (True, False)
    _, again = await page.get(path)
    assert "It is paused already: wrong &lt;prompt&gt; (by ann@desk)." in again
    _, of_job = await page.get("/jobs/j-1")
    assert (resume in of_job, "/actions/resume?" in of_job) == (True, False)

    _, form = await page.get(resume)
    assert "1 job that it has paused will go on." in form
    await perform(page, resume, reason="a new prompt")
    statuses = [(await each.facts()).status for each in (job, by_hand)]
    assert statuses == ["RUNNING", "PAUSED"]
    _, shown = await page.get("/")
    assert (resume in shown, path in shown) == (False, True)
    status, twice = await page.post(resume, reason="once more")
    assert (status, "job.pipeline.not_paused" in twice) == (422, True)


async def test_a_canary_redrives_a_cause_of_all_jobs(
    deployment: Deployment, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letter_actions, "MAX_LISTED", 3)
    for job in ("j-1", "j-2"):
        await deployment.submit(job, "one", "broken", "broken two")
    async with deployment.worker():
        for job in ("j-1", "j-2"):
            await deployment.client.job(job).wait(timeout=20)
        [cause] = await deployment.client.causes()
        path = f"/actions/redrive?fingerprint={cause['fingerprint']}"
        _, form = await page.get(path)
        assert "4 open dead letters of cause" in form
        assert "Not listed: 1 more." in form
        deployment.mended = True
        text = await perform(page, path, canary="1", reason="deployed the fix")
        assert "4 dead letters redriven." in text
        for job in ("j-1", "j-2"):
            view = await deployment.client.job(job).wait(timeout=20)
            assert view.succeeded
            assert view.document["reopened_by"] == "ann@desk"
            assert view.document["reopen_reason"] == "deployed the fix"


async def test_a_payload_is_edited_and_a_letter_discarded_once_they_were_shown(
    deployment: Deployment, page: Page
) -> None:
    job = await deployment.submit("j-1", "broken", "broken too")
    async with deployment.worker():
        await job.wait(timeout=20)
        edit = "/actions/edit?job=j-1&chunk=0"
        status, text = await page.post(edit, payload="{", reason="a typing error")
        assert (status, "redrive.payload.invalid" in text) == (422, True)
        assert ">{</textarea>" in text  # what was typed is not lost
        payload = '{"text": "one two three"}'
        mark = kept_in(text, "shown")
        await job.redrive("by another operator", chunks=[0])
        await job.wait(timeout=20)
        for name in ("edit", "redrive", "discard"):
            fields = {"shown": mark, "reason": "x", "canary": "0", "payload": payload}
            path = f"/actions/{name}?job=j-1&chunk=0"
            status, text = await page.post(path, **fields)
            assert (status, "have changed since" in text) == (422, True)
        done = await perform(page, edit, payload=payload, reason="a typing error")
        assert "1 dead letter redriven with a new payload." in done
        await job.wait(timeout=20)
        discard = "/actions/discard?job=j-1&chunk=1"
        assert "1 dead letter discarded." in await perform(
            page, discard, reason="a test"
        )
        status, text = await page.post(discard, reason="again")
        assert (status, "redrive.selection.empty" in text) == (422, True)
    _, chunk = await page.get("/jobs/j-1/chunks/1")
    assert ("Discarded by ann@desk" in chunk, "/actions/" in chunk) == (True, False)
    results = {item.chunk: item async for item in job.results()}
    assert results[0].value == 3  # type: ignore[union-attr]
    [letter] = [one for one in await job.dead_letters(closed=True) if one.chunk == 1]
    assert letter.facts["discard_reason"] == "a test"
    _, form = await page.get("/actions/retry?job=j-1")
    assert "0 chunks without a result will run again." in form
    assert "1 discarded chunk will stay dead." in form
    status, refused = await page.post("/actions/retry?job=j-1", reason="once more")
    assert (status, "job.retry.nothing_left" in refused) == (422, True)


@pytest.mark.parametrize("chunk", ["0", "join"])
async def test_an_effect_in_doubt_is_resolved(
    deployment: Deployment, page: Page, chunk: str
) -> None:
    counting, paying = Stage(deployment.count, name="count"), Stage(pay, pivot=True)
    stage, join = (paying, None) if chunk == "0" else (counting, pay)
    pipeline = Pipeline("pay", payload=Paragraph, stages=[stage], join=join)
    job = await deployment.client.submit(pipeline, [Paragraph(text="x")], id="j-1")
    async with worker_beside(deployment.aws, {"pay": pipeline}, [__name__]):
        await job.wait(timeout=20)
    [effect] = [row async for row in job.effects()]
    _, shown = await page.get("/jobs/j-1")
    assert "Effects in doubt" in shown
    path = f"/actions/resolve?job=j-1&chunk={chunk}&effect={effect['effect_key']}"
    assert escape(path) in shown
    assert effect["effect_key"] in (await page.get(path[:-4]))[1]
    fields = {"answer": '"paid 100"', "reason": "bank statement"}
    for outcome, answer in (("", ""), ("did-not-happen", "1"), ("happened", "")):
        posted = {"outcome": outcome, "answer": answer, "reason": "unsure"}
        status, _ = await page.post(path, **posted)
        assert 422 == status
    fields["outcome"] = "happened"
    assert "The effect is" in await perform(page, path, **fields)
    assert [row async for row in job.effects()] == []
    await job.discard("a test")
    assert "0 chunks without a" in (await page.get("/actions/retry?job=j-1"))[1]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/actions/cancel?job=unknown", 404),
        ("/actions/explode?job=j-1", 404),
        ("/actions/redrive?job=j-1&chunk=x", 400),
        ("/actions/edit?job=j-1", 400),
        ("/actions/resolve?job=j-1&effect=x", 400),
        ("/actions/answer?job=j-1&question=x", 400),
        ("/actions/pause-pipeline?pipeline=a/b", 400),
    ],
)
async def test_an_action_without_a_reason_or_a_subject_changes_nothing(
    deployment: Deployment, page: Page, path: str, status: int
) -> None:
    job = await deployment.submit("j-1", "one")
    before = (await job.facts()).document
    found, text = await page.post(path, reason="  ")
    assert found == status
    assert "Traceback" not in text
    assert (await job.facts()).document == before


@pytest.mark.parametrize("name", sorted(ACTIONS.keys() - {"answer"}))
async def test_each_action_shows_its_subject_and_refuses_without_a_reason(
    deployment: Deployment, page: Page, name: str
) -> None:
    job = await deployment.submit("j-1", "broken", "one")
    async with deployment.worker():
        await job.wait(timeout=20)
    if name in {"pause", "cancel", "pause-pipeline", "resume-pipeline"}:
        job = await deployment.submit("j-2", "one")
    before = (await job.view()).document
    path = f"/actions/{name}?job={job.id}&chunk=0&effect=none&pipeline=word-count"
    status, form = await page.get(path)
    assert (status, "What it would change" in form) == (200, True)
    assert job.id in form
    status, again = await page.post(path, reason=" ")
    assert (status, "A reason is required" in again) == (422, True)
    assert (await job.view()).document == before
