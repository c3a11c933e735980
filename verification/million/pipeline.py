"""A chunk of twenty calls in turn, and a chunk that calls nothing."""

from __future__ import annotations

import os

from anthropic import AsyncAnthropic
from pydantic import BaseModel

from piecework import pipeline
from piecework.llm import Model, anthropic_messages

CALLS = 20
#: Bytes of a question, beside its number.
QUESTION_BYTES = 4096
QUESTION = ("Which of these clauses is unusual, and why? " * 100)[:QUESTION_BYTES]


class Task(BaseModel):
    """A chunk: its number."""

    n: int


async def client() -> AsyncAnthropic:
    """Return a client of the provider of this run."""
    return AsyncAnthropic(base_url=os.environ["MILLION_PROVIDER"], api_key="none")


model = Model("model", anthropic_messages(client))


@pipeline
async def twenty(task: Task) -> int:
    """Ask twenty questions, each after the answer to the one before."""
    read = 0
    for number in range(CALLS):
        read += len(await model.ask("Review.", f"{task.n}.{number}: {QUESTION}"))
    return read


@pipeline
async def nothing(task: Task) -> int:
    """Do nothing."""
    return task.n
