"""Count the words of each text with a slow, paid service."""

from piecework import Dependency, Results, pipeline
from pydantic import BaseModel


class Text(BaseModel):
    """The payload of one chunk: a line of rows.jsonl."""

    text: str


words = Dependency("word-counter", timeout=5)


@words.call  # retried, and a stored answer is not paid for again
async def count_words(text: str) -> int:
    """Stand for a service; put a real request here."""
    return len(text.split())


@pipeline(owner="your team", runbook="README.md")
async def word_count(part: Text) -> int:
    """Run once for each chunk; the result is stored."""
    return await count_words(part.text)


@word_count.join
async def total(results: Results[int]) -> int:
    """Run once, after the last chunk."""
    return sum([result.value async for result in results])
