"""Limit lists, and check the filters of lists."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from enum import StrEnum
from typing import Any, TypeVar

from piecework.errors import UsageError

T = TypeVar("T")


async def take_first(found: AsyncIterator[T], limit: int) -> tuple[list[T], bool]:
    """Return the first items, and whether there are more; limit 0 returns all."""
    taken: list[T] = []
    generator: Any = found
    async with aclosing(generator):
        async for one in found:
            if limit and len(taken) == limit:
                return taken, True
            taken.append(one)
    return taken, False


def parse_status(status: str | None, statuses: type[StrEnum]) -> str | None:
    """Return a status in upper case, as it is stored.

    Raises:
        UsageError: `cli.usage.invalid`, naming the valid statuses.
    """
    if status is None:
        return None
    names = [str(each) for each in statuses]
    if status.upper() not in names:
        message = f"{status} is not a status."
        raise UsageError(message, next_step=f"Use one of {', '.join(names)}.")
    return status.upper()


def parse_chunk(text: str) -> int:
    """Return the number of a chunk; `join` has a number of its own.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    from piecework.keys import JOIN_CHUNK

    if text.lower() == "join":
        return JOIN_CHUNK
    if not (text.isascii() and text.isdigit() and len(text) < len("1" * 12)):
        message = f"{text!r} is not a chunk number."
        raise UsageError(message, next_step="Use a number from 0, or `join`.")
    return int(text)
