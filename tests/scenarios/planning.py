"""A pipeline that reads what the error of a call says, and plans around it."""

from __future__ import annotations

from dataclasses import replace

from piecework import (
    Context,
    Dependency,
    PermanentError,
    Pipeline,
    Stage,
    TransientError,
    envelope_of,
)
from tests.scenarios.pipelines import QUICK, Item, fixed, note

WINDOW = 8


class ReaderError(Exception):
    """A library's error, of which Piecework knows nothing."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the reader says {reason}")
        self.reason = reason


def meaning(error: BaseException) -> TransientError | PermanentError | None:
    """Say in our words what the reader's errors mean."""
    if not isinstance(error, ReaderError):
        return None
    if error.reason == "too long":
        return PermanentError("too long", code="llm.context.overflow", http_status=400)
    return TransientError("busy", code="acme.reader.busy", retry_after=0.0)


reader = Dependency("reader", retry=QUICK, layer="llm", classify=meaning)


async def count(letters: int, *, idempotency_key: str) -> int:
    """Read a text, if it is short enough."""
    note("count", letters)
    if letters == 1 and not fixed():
        raise ReaderError("busy")
    if letters > WINDOW:
        raise ReaderError("too long")
    return letters


async def read(ctx: Context[Item]) -> int:
    """Read the text whole or, if that is too much, in two halves."""
    letters = ctx.payload.n
    try:
        return await ctx.call(reader, count, letters)
    except Exception as error:
        told = envelope_of(error)
        note("told", told.code, told.stage, told.attempt, told.correlation_id)
        if told.code != "llm.context.overflow":
            raise
        halves = letters // 2, letters - letters // 2
        return sum([await ctx.call(reader, count, half) for half in halves])


reading = Pipeline(name="reading", payload=Item, stages=[Stage(read)])
reading_apart = replace(
    reading, name="reading-apart", stages=[Stage(read, isolate=True)]
)
