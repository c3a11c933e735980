"""Guarantee: the page shows what a call asked and what came back, as text."""

from __future__ import annotations

from pydantic import BaseModel

from piecework import Context, Pipeline, Stage
from piecework.llm import Model, ModelAnswer, ModelRequest
from piecework_examples.quickstart import Paragraph
from piecework_simulation.in_process import worker_beside
from tests.ui.conftest import SCRIPT, TOKEN, Deployment, Page, serve


class Score(BaseModel):
    points: int


async def say(request: ModelRequest) -> ModelAnswer:
    """Answer a good text with a number, and any other with markup."""
    points = "3" if request.text == "good" else f'"{SCRIPT}"'
    return ModelAnswer(f'{{"points": {points}}}', tokens_in=1_000, usd=0.002)


judge = Model("judge", say, repairs=0)


async def score(ctx: Context[Paragraph]) -> int:
    found = await judge.ask(f"Score {SCRIPT}", ctx.payload.text, returns=Score)
    return found.points


scoring = Pipeline("scoring", payload=Paragraph, stages=[Stage(score)])


async def judged(deployment: Deployment, name: str = "j-1") -> None:
    """End a job of which one chunk dies of an answer that does not fit."""
    rows = [Paragraph(text="good"), Paragraph(text=f"bad {SCRIPT}")]
    job = await deployment.client.submit(scoring, rows, id=name)
    async with worker_beside(deployment.aws, {"scoring": scoring}, [__name__]):
        await job.wait(timeout=20)


async def test_from_a_dead_chunk_to_the_answer_that_did_not_fit(
    deployment: Deployment, page: Page
) -> None:
    await judged(deployment)
    _, chunk = await page.get("/jobs/j-1/chunks/1")
    assert "/jobs/j-1/chunks/1/calls/1" in chunk
    assert "failed: llm.output.invalid" in chunk
    _, call = await page.get("/jobs/j-1/chunks/1/calls/1")
    assert "Answer that was refused" in call
    assert "<code>points</code>" in call
    assert SCRIPT not in chunk + call
    assert "Score &lt;script&gt;" in call
    _, good = await page.get("/jobs/j-1/chunks/0")
    assert "$0.0020" in good
    assert "made" in (await page.get("/jobs/j-1/chunks/0/calls/1"))[1]
    status, text = await page.get("/jobs/j-1/chunks/0/calls/9")
    assert (404, True) == (status, "job.call.not_found" in text)


async def test_a_page_without_payloads_shows_no_arguments(
    deployment: Deployment,
) -> None:
    await judged(deployment)
    async with serve(deployment.client, payloads=False) as page:
        await page.get(f"/?token={TOKEN}")
        _, call = await page.get("/jobs/j-1/chunks/1/calls/1")
    assert "--show-payloads" in call
    assert "Score &lt;script" not in call
