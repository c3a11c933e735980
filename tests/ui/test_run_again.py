"""Guarantee: a chunk, or the chunks of a cause, run again from a stage by the page."""

from __future__ import annotations

from piecework import Context, Dependency, Effect, PermanentError, Pipeline, Stage
from piecework_examples.quickstart import Paragraph
from piecework_simulation.in_process import worker_beside
from tests.ui.conftest import Deployment, Page
from tests.ui.test_actions import perform

shelf = Dependency("shelf", effect=Effect.PROVIDER_IDEMPOTENT)
made: list[str] = []


@shelf.call
async def put(text: str, *, idempotency_key: str) -> str:
    """Put a text on the shelf."""
    made.append(f"{text} {idempotency_key}")
    return text


async def clean(ctx: Context[Paragraph]) -> str:
    """Return the text without the script."""
    return ctx.payload.text.strip()


async def store(ctx: Context[Paragraph]) -> str:
    """Put it on the shelf."""
    return await put(ctx.result(clean))


async def count(ctx: Context[Paragraph]) -> int:
    """Refuse an odd text."""
    if "odd" in ctx.result(clean):
        raise PermanentError("this text cannot be counted")
    return len(ctx.result(store).split())


shelving = Pipeline(
    "word-count",
    payload=Paragraph,
    stages=[Stage(clean), Stage(store), Stage(count)],
)


async def test_a_chunk_runs_again_from_a_stage_or_with_another_value(
    deployment: Deployment, page: Page
) -> None:
    made.clear()
    rows = [Paragraph(text=text) for text in ("odd one", "odd two")]
    job = await deployment.client.submit(shelving, rows, id="j-1")
    async with worker_beside(deployment.aws, {"word-count": shelving}, [__name__]):
        await job.wait(timeout=20)
        _, chunk = await page.get("/jobs/j-1/chunks/0")
        assert "/actions/run-again?job=j-1&amp;chunk=0" in chunk
        of_chunk = "/actions/run-again?job=j-1&chunk=0"
        _, choice = await page.get(of_chunk)
        assert "Choose the completed stage." in choice
        assert "chunk=0" in choice
        assert "stage=clean" in choice
        assert "<form" not in choice
        _, preview = await page.get(f"{of_chunk}&stage=clean")
        assert "1 chunk will run again from stage clean." in preview
        assert "1 chunk would be refused: redrive.effect.repeated." in preview
        assert "one with other arguments happens, too" in preview
        refused, text = await page.post(
            f"{of_chunk}&stage=clean",
            shown=preview.partition('name="shown" value="')[2].partition('"')[0],
            reason="once more",
        )
        assert refused == 422
        assert "redrive.effect.repeated" in text

        edit = "/actions/edit-value?job=j-1&chunk=0&stage=clean"
        _, form = await page.get(edit)
        assert "odd one" in form
        fields = {"value": '"even one"', "repeats": "on"}
        text = await perform(page, edit, reason="by hand", **fields)
        assert "1 dead letter redriven with a new value of stage clean." in text
        await job.wait(timeout=20)
    assert {0: 2} == {
        r.chunk: r.value async for r in job.results() if hasattr(r, "value")
    }
    # The two chunks run at once: either may put its text first.
    assert [["even", "one"], ["odd", "one"], ["odd", "two"]] == sorted(
        line.split()[:2] for line in made
    )
    chunk_now = await job.chunk(0)
    (cleaned, *_) = chunk_now["stages"]
    assert cleaned["stage"] == "clean"
