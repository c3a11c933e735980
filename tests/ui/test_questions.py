"""Guarantee: a person sees on the page what stages ask, and one answer counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel, Field

from piecework import Approval, Context, Escalate, Pipeline, Stage
from piecework.client import JobHandle
from piecework_examples.quickstart import Paragraph
from piecework_simulation.in_process import worker_beside
from tests.ui.conftest import SCRIPT, TOKEN, Deployment, Page, kept_in, serve
from tests.ui.test_actions import perform

HOUR = timedelta(hours=1)


class Correction(BaseModel):
    """An answer with each kind of a field."""

    amount: int = Field(ge=1, le=500, description="Cents to pay back")
    urgent: bool
    why: str = ""
    lines: list[int] = []


async def publish(ctx: Context[Paragraph]) -> str:
    """Ask for a yes or no, or for a correction."""
    if ctx.payload.text == "correct":
        answer = await ctx.wait_for(
            "sum", ask={"sum": 3}, timeout=3 * HOUR, answer=Correction
        )
        return str(answer)
    if ctx.payload.text == "short":
        said = await ctx.wait_for(
            "approval", ask="?", timeout=0.5, default=Approval(approved=False)
        )
        return str(said)
    said = await ctx.wait_for(
        "approval",
        ask=f"Publish {ctx.payload.text}?",
        timeout=48 * HOUR,
        remind=[20 * HOUR],
        escalate=Escalate(24 * HOUR, to="leads"),
        default=Approval(approved=False),
    )
    return str(said)


publishing = Pipeline("publishing", payload=Paragraph, stages=[Stage(publish)])


@asynccontextmanager
async def asking(
    deployment: Deployment, *texts: str, name: str = "j-1"
) -> AsyncIterator[JobHandle[Any]]:
    """Run a job whose chunks all ask."""
    rows = [Paragraph(text=text) for text in texts]
    job = await deployment.client.submit(publishing, rows, id=name)
    async with worker_beside(deployment.aws, {"publishing": publishing}, [__name__]):
        async with asyncio.timeout(20):
            while len([q async for q in job.questions()]) < len(texts):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        yield job


def question_at(chunk: int) -> str:
    """Return the address of the page of a chunk's question."""
    return f"/jobs/j-1/chunks/{chunk}/question"


async def test_one_of_two_answers_counts_and_the_page_says_whose(
    deployment: Deployment, page: Page
) -> None:
    async with asking(deployment, SCRIPT, "hi") as job:
        _, shown = await page.get("/jobs/j-1")
        assert question_at(0) in shown
        assert "/questions?job=j-1" in shown  # beside the finding
        _, chunk = await page.get("/jobs/j-1/chunks/0")
        assert question_at(0) in chunk
        for path in ("/questions", "/questions?job=j-1"):
            _, listed = await page.get(path)
            assert f"{question_at(0)}?name=approval" in listed
            assert "Publish hi?" in listed
            assert "reminder" in listed
            assert SCRIPT not in listed
        status, form = await page.get(question_at(0))
        assert (status, SCRIPT in form) == (200, False)
        assert "Publish &lt;script&gt;" in form
        assert "Escalation" in form
        assert "to leads" in form
        path = "/actions/answer?job=j-1&chunk=0&question=approval"
        status, refused = await page.post(path, reason="no choice", decision="maybe")
        assert (status, "approval.answer.invalid" in refused) == (422, True)
        assert 'value="no choice"' in refused
        yes = {
            "decision": "yes",
            "reason": "checked",
            "asked_at": kept_in(form, "asked_at"),
        }
        old = await page.post(path, **{**yes, "asked_at": "2020-01-01T00:00:00.000Z"})
        assert (old[0], "approval.question.asked_again" in old[1]) == (422, True)
        assert "The answer counts: ann@desk answered" in await perform(
            page, path, **yes
        )
        status, late = await page.post(path, **{**yes, "decision": "no"})
        assert (status, "approval.question.answered" in late) == (422, True)
        assert "ann@desk answered {&#34;approved&#34;:true" in late
        assert "<form" not in late
        _, ended = await page.get(question_at(0))
        assert "This question has ended" in ended
        path = "/actions/answer?job=j-1&chunk=1&question=approval"
        await perform(page, path, **{**yes, "decision": "no", "asked_at": ""})
        await job.wait(timeout=20)
    results = {done.chunk: str(done.value) async for done in job.results()}  # type: ignore[union-attr]
    assert "approved=True comment='checked'" in results[0]
    assert "approved=False" in results[1]
    [event, _] = [each for each in await job.events() if each["event"] == "answered"]
    assert event["facts"]["actor"] == "ann@desk"


async def test_a_form_is_made_from_the_schema_of_the_answer(
    deployment: Deployment, page: Page
) -> None:
    async with asking(deployment, "correct") as job:
        _, form = await page.get(question_at(0))
        assert "Cents to pay back; at least 1; at most 500" in form
        assert '<option value="false">no</option>' in form
        path = "/actions/answer?job=j-1&chunk=0&question=sum"
        given = {
            "answer.amount": "900",
            "answer.urgent": "true",
            "answer.why": "3",
            "answer.lines": "[1, 2]",
            "reason": "in part",
        }
        for wrong, told in (
            ({}, "amount: Input should be less than or equal to 500"),
            ({"answer.amount": ""}, "amount: Field required"),
            ({"answer.lines": "[1"}, "lines is not JSON"),
        ):
            status, again = await page.post(path, **{**given, **wrong})
            assert (status, told in again) == (422, True)
            assert '<option value="true" selected>' in again
        await perform(page, path, **{**given, "answer.amount": "250"})
        await job.wait(timeout=20)
    [done] = [done async for done in job.results()]
    expected = "amount=250 urgent=True why='3' lines=[1, 2]"
    assert expected == done.value  # type: ignore[union-attr]


async def test_a_question_after_its_time_says_what_followed(
    deployment: Deployment, page: Page
) -> None:
    rows = [Paragraph(text="short")]
    job = await deployment.client.submit(publishing, rows, id="j-1")
    async with worker_beside(deployment.aws, {"publishing": publishing}, [__name__]):
        await job.wait(timeout=20)
    status, late = await page.post(
        "/actions/answer?job=j-1&chunk=0&question=approval", reason="x", decision="yes"
    )
    assert (status, "approval.question.timed_out" in late) == (422, True)
    assert "so its default counts" in late
    assert "No stage waits" in (await page.get("/questions"))[1]


@pytest.mark.parametrize("allowed", ["actions", "payloads"])
async def test_a_page_that_only_reads_or_hides_payloads_answers_nothing(
    deployment: Deployment, allowed: str
) -> None:
    changes = {name: name == allowed for name in ("actions", "payloads")}
    async with (
        asking(deployment, "secret") as job,
        serve(deployment.client, **changes) as page,
    ):
        await page.get(f"/?token={TOKEN}")
        for path in ("/questions", question_at(0)):
            status, text = await page.get(path)
            assert (status, "Publish secret?" in text) == (200, allowed == "payloads")
            assert "<form" not in text
        path = "/actions/answer?job=j-1&chunk=0&question=approval"
        status, _ = await page.post(path, reason="x", decision="yes")
        assert status == 403
        assert (await job.question(0))["state"] == "OPEN"
        await job.answer(0, {"approved": True, "comment": "secret too"}, "why")
        for path in ("/jobs/j-1", question_at(0)):
            _, text = await page.get(path)
            assert "ann@desk" in text
            assert ("secret too" in text) == (allowed == "payloads")
