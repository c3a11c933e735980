"""Cut lists, and filter them by words that are checked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from enum import StrEnum
from typing import Any, TypeVar

from piecework.errors import UsageError

T = TypeVar("T")


async def first(found: AsyncIterator[T], limit: int) -> tuple[list[T], bool]:
    """Return the first of a list, all for 0, and whether there are more."""
    taken: list[T] = []
    generator: Any = found
    async with aclosing(generator):
        async for one in found:
            if limit and len(taken) == limit:
                return taken, True
            taken.append(one)
    return taken, False


def known_status(status: str | None, statuses: type[StrEnum]) -> str | None:
    """Return a status as it is stored, however it was typed.

    Raises:
        UsageError: `cli.usage.invalid`, naming those that there are.
    """
    if status is None:
        return None
    names = [str(each) for each in statuses]
    if status.upper() not in names:
        message = f"There is no status {status}."
        raise UsageError(message, next_step=f"Use one of {', '.join(names)}.")
    return status.upper()


def chunk_number(text: str) -> int:
    """Return the number of a chunk, or that of the join.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    from piecework.keys import JOIN_CHUNK

    if text.lower() == "join":
        return JOIN_CHUNK
    if not (text.isascii() and text.isdigit() and len(text) < len("1" * 12)):
        message = f"{text!r} is no chunk's number."
        raise UsageError(message, next_step="Chunks are counted from 0; or say `join`.")
    return int(text)
