"""The smallest pipeline: count the words of each paragraph."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from piecework import Context, Dependency, Document, JoinContext, Pipeline, Stage


class Paragraph(BaseModel):
    """What one chunk carries."""

    text: str


def paragraphs(document: Document) -> Iterator[Paragraph]:
    """Cut a document into chunks; runs once, at submit."""
    for block in document.text.split("\n\n"):
        if block.strip():
            yield Paragraph(text=block.strip())


async def count_words(text: str, *, idempotency_key: str) -> int:
    """Stand in for a slow and costly service."""
    del idempotency_key  # a service would be sent it, with the text
    return len(text.split())


counter = Dependency("word-counter")


async def count(ctx: Context[Paragraph]) -> int:
    """Call the service: retried, and its answer remembered."""
    return await ctx.call(counter, count_words, ctx.payload.text)


async def total(ctx: JoinContext) -> int:
    """Add up the results; runs once, after the last chunk."""
    words: int = sum([item.value async for item in ctx.results()])
    await ctx.write("total.txt", f"{words}\n", media_type="text/plain")
    return words


pipeline = Pipeline(
    name="word-count",
    payload=Paragraph,
    split=paragraphs,
    stages=[Stage(count)],
    join=total,
    label=lambda paragraph: paragraph.text[:40],
)
