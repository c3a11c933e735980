"""The pipeline that is killed: one paid call and one effect for each row."""

from __future__ import annotations

import asyncio
import os

from pydantic import BaseModel

from piecework import Dependency, Effect, pipeline

CALL_S = float(os.environ.get("RESUME_CALL_S", "0.03"))

model = Dependency("model", timeout=30)
mail = Dependency("mail", effect=Effect.PROVIDER_IDEMPOTENT, timeout=5)


class Row(BaseModel):
    """A number."""

    n: int


def write(*words: object) -> None:
    """Append a line to the book, in one write."""
    book = os.open(os.environ["RESUME_BOOK"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(book, (" ".join(map(str, words)) + "\n").encode())
    os.close(book)


@model.call
async def ask(n: int) -> int:
    """Be a slow, paid call."""
    write("begin", n)
    await asyncio.sleep(CALL_S)
    return n * n


@mail.call
async def send(n: int, idempotency_key: str = "") -> str:
    """Be an effect of a system that honours keys."""
    write("effect", n, idempotency_key)
    return "sent"


@pipeline
async def squares(row: Row) -> int:
    """Ask, then send."""
    value = await ask(row.n)
    write("end", row.n)
    await send(row.n)
    return value
