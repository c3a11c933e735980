"""Declarations and uses without a type error; `test_typed.py` checks this file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import assert_type

from pydantic import BaseModel

from piecework import (
    Context,
    Dependency,
    Effect,
    Happened,
    MayHaveHappened,
    NotHappened,
    Occurrence,
    Pipeline,
    Results,
    Stage,
    pipeline,
)
from piecework.client import (
    Client,
    Done,
    Edit,
    JobFacts,
    JobView,
    Redriven,
    RedriveOptions,
)
from piecework.llm import Model, ModelAnswer, ModelRequest, Price

words = Dependency("word-counter")
pay = Dependency("pay", effect=Effect.PROVIDER_IDEMPOTENT)


class Text(BaseModel):
    """A payload."""

    text: str


@words.call
async def count_words(text: str) -> int:
    """Count words."""
    return len(text.split())


@pay.call(name="charge", version="1")
async def charge(order: str, cents: int, *, idempotency_key: str = "") -> str:
    """Pay."""
    return f"{order} {cents} {idempotency_key}"


@pipeline
async def word_count(part: Text) -> int:
    """Count the words of a text."""
    await charge("order-1", cents=100)
    return await count_words(part.text)


@word_count.join
async def total(results: Results[int]) -> int:
    """Add all counts."""
    return sum([result.value async for result in results])


@pipeline(timeout=5)
def shout(part: Text) -> str:
    """Return the text in capitals."""
    return part.text.upper()


async def first(ctx: Context[Text]) -> int:
    """Count the words of a text, as the first of two stages."""
    return await ctx.call(words, count_plainly, ctx.payload.text)


async def count_plainly(text: str, *, idempotency_key: str = "") -> int:
    """Count words through `ctx.call`."""
    del idempotency_key
    return len(text.split())


async def undo(ctx: Context[Text]) -> None:
    """Ask what happened."""
    match ctx.happened(charge):
        case Happened(answer=receipt):
            assert_type(receipt, str)
        case MayHaveHappened() | NotHappened():
            pass
    assert_type(ctx.happened(charge, "order-1", cents=100), Occurrence[str])
    assert_type(ctx.happened(count_plainly, "a"), Occurrence[int])


async def second(ctx: Context[Text]) -> str:
    """Write the count."""
    return str(assert_type(ctx.result(first), int))


async def join(ctx: Results) -> int:
    """Count the results."""
    return len([result async for result in ctx])


two_stages = Pipeline(
    "two-stages",
    payload=Text,
    stages=[Stage(first, compensate=undo, undo_if_failed=True), Stage(second)],
    join=join,
)


async def rows() -> AsyncIterator[Text]:
    """Yield rows."""
    yield Text(text="a")


async def complete(request: ModelRequest) -> ModelAnswer:
    """Ask a provider."""
    return ModelAnswer(request.text, tokens_in=1)


mini = Model("mini", complete, price=Price(input=0.25, output=2.0), timeout=30)


@pipeline
async def read(part: Text) -> Text:
    """Ask a model."""
    assert_type(await mini.ask("Read.", part.text), str)
    assert_type(await mini.ask("Read.", part.text, may_be_empty=True), str)
    assert_type(await mini.ask("Read.", part.text, returns=Text, repairs=0), Text)
    return assert_type(await mini.ask("Read.", part.text, returns=Text), Text)


async def program() -> None:
    """Use the client."""
    async with Client() as client:
        job = await client.submit(word_count, rows(), deadline="2h")
        async for item in job.results():
            if isinstance(item, Done):
                assert_type(item.value, int)
        await client.submit(two_stages, [{"text": "a"}])
        known = client.job("job-1", shout)
        assert_type(
            [item.value async for item in known.results() if isinstance(item, Done)],
            list[str],
        )
        assert_type(await known.wait(timeout=3, progress=True), JobView)
        letters = await client.dead_letters(code="llm.*", chunks=[1])
        options = RedriveOptions(canary=1, edit=Edit({"text": "b"}))
        assert_type(await client.redrive(letters, "fixed", options), Redriven)
        assert_type(await job.redrive("fixed", stage="count", since="1h"), Redriven)
    assert_type(await word_count(Text(text="a")), int)
    assert_type(await count_words("a"), int)


def script() -> None:
    """Use the client without `await`: the types are those of the other one."""
    with Client.sync(env="test") as client:
        job = client.submit(word_count, [Text(text="a")], deadline="2h")
        assert_type(job.wait(timeout=3, progress=True), JobView)
        assert_type(
            [item.value for item in job.results() if isinstance(item, Done)], list[int]
        )
        assert_type(job.cancel("why", compensate=True), JobFacts)
        assert_type(job.redrive("why", code="llm.*"), Redriven)
        assert_type([one.status.ended for one in client.jobs("RUNNING")], list[bool])
        assert_type(job.export("out.csv"), int)
