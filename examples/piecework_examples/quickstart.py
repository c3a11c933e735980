"""The smallest pipeline: count the words of each paragraph."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from piecework import Dependency, Document, Results, pipeline


class Paragraph(BaseModel):
    """What one chunk carries."""

    text: str


counter = Dependency("word-counter")


@counter.call
async def count_words(text: str) -> int:
    """Stand for a slow and costly service: retried, and its answer remembered."""
    return len(text.split())


@pipeline(name="word-count")
async def word_count(paragraph: Paragraph) -> int:
    """Count the words of a paragraph; runs once for each chunk."""
    return await count_words(paragraph.text)


@word_count.split
def paragraphs(document: Document) -> Iterator[Paragraph]:
    """Cut a document into chunks; runs once, at submit."""
    for block in document.text.split("\n\n"):
        if block.strip():
            yield Paragraph(text=block.strip())


@word_count.label
def beginning(paragraph: Paragraph) -> str:
    """Name a chunk in lists."""
    return paragraph.text[:40]


@word_count.join
async def total(results: Results[int]) -> int:
    """Add up the results; runs once, after the last chunk."""
    words = sum([result.value async for result in results])
    await results.write("total.txt", f"{words}\n", media_type="text/plain")
    return words
