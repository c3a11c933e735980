"""Guarantee: two jobs are compared chunk by chunk, whatever each of them had."""

from __future__ import annotations

from random import Random

from piecework import Context, PermanentError, Pipeline, Stage
from piecework.client import Client
from piecework.settings import Settings
from piecework_examples.quickstart import Paragraph
from piecework_simulation.in_process import InProcessAws, worker_beside

#: What the pipeline does to its texts: the tests change it between two jobs.
prompts = ["upper"]


async def write(ctx: Context[Paragraph]) -> str:
    text = ctx.payload.text
    if text == "bad":
        raise PermanentError("no", code=f"app.refused.{prompts[-1]}")
    return text.upper() if prompts[-1] == "upper" else text.capitalize()


writing = Pipeline("writing", payload=Paragraph, stages=[Stage(write)])


async def test_what_differs_is_listed_with_both_sides() -> None:
    aws = InProcessAws(
        Settings(receive_wait_s=1, cancel_poll_s=0.2, max_attempts=1), rng=Random(3)
    )
    async with Client(runtime=aws.runtime(), actor="ann") as client:
        jobs = []
        for prompt, texts in (
            ("upper", ["a", "two", "bad", "more"]),
            ("capital", ["a", "two", "bad", "else", "last"]),
        ):
            prompts.append(prompt)
            rows = [Paragraph(text=text) for text in texts]
            jobs.append(await client.submit(writing, rows, id=prompt))
            async with worker_beside(aws, {"writing": writing}, [__name__]):
                await jobs[-1].wait(timeout=30)
        found = {row["chunk"]: row async for row in jobs[0].differences("capital")}
        again = [row async for row in jobs[0].differences("upper")]

    assert [] == again
    # Chunk 0 is "A" in both.
    assert [1, 2, 3, 4] == sorted(found)
    assert ("TWO", "Two") == (found[1]["one"]["value"], found[1]["other"]["value"])
    codes = [found[2][side]["error_code"] for side in ("one", "other")]
    assert ["app.refused.upper", "app.refused.capital"] == codes
    assert [False, False, True] == [found[n]["payload_differs"] for n in (1, 2, 3)]
    assert found[4]["one"] is None
    assert "Last" == found[4]["other"]["value"]
