"""One type error in each line that is marked; `test_typed.py` checks this file."""

from __future__ import annotations

from pydantic import BaseModel
from right import Text, charge, count_words, first, mini, word_count

from piecework import Context, Happened, Pipeline, Results, Stage
from piecework.client import Client, Done


class Other(BaseModel):
    """Another payload."""

    number: int


async def other(ctx: Context[Other]) -> int:
    """Take another payload."""
    return ctx.payload.number


async def wrong_arguments() -> None:
    """Call with wrong arguments."""
    await count_words(1)  # wrong
    await count_words()  # wrong
    await charge("order", cents="100")  # wrong
    text: str = await count_words("a")  # wrong
    await word_count(Other(number=1))  # wrong
    del text


async def wrong_answers() -> None:
    """Take an answer for another type, and name a parameter wrongly."""
    number: int = (await mini.ask("Read.", "a", returns=Other)).number
    other: Other = await mini.ask("Read.", "a", returns=Text)  # wrong
    text: Text = await mini.ask("Read.", "a")  # wrong
    await mini.ask("Read.", "a", returns=int)  # wrong
    await mini.ask("Read.", "a", max_token=3)  # wrong
    await mini.ask("Read.", "a", repairs=0)  # wrong
    del number, other, text


async def wrong_questions(ctx: Context[Text]) -> None:
    """Take the answer for another type, or ask about a value."""
    match ctx.happened(charge):
        case Happened(answer=receipt):
            number: int = receipt  # wrong
            del number
    ctx.happened("charge")  # wrong
    receipt = ctx.happened(charge).answer  # wrong


Pipeline("p", payload=Text, stages=[Stage(other)])  # wrong
Pipeline("p", payload=Other, stages=[Stage(first)])  # wrong


@word_count.join  # wrong
async def join(results: Results[str]) -> str:
    """Join results of another type."""
    return ",".join([result.value async for result in results])


async def wrong_rows() -> None:
    """Submit rows of another payload."""
    async with Client() as client:
        await client.submit(word_count, [Other(number=1)])  # wrong
        job = await client.submit(word_count, [Text(text="a")])
        async for item in job.results():
            if isinstance(item, Done):
                text: str = item.value  # wrong
                del text


def wrong_script() -> None:
    """Misuse the client without `await`."""
    with Client.sync() as client:
        client.submit(word_count, [Other(number=1)])  # wrong
        job = client.submit(word_count, [Text(text="a")])
        job.wait(timeout=[2])  # wrong
        job.cancel(compensated=True)  # wrong
        job.redrive("why", cause="llm.*")  # wrong
        text: str = job.retry()  # wrong
        client.jobs(7)  # wrong
    del text
