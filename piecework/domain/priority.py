"""The priority of a job, and which of its chunks a submit sends as messages.

SQS delivers messages in about the order of their arrival. If a submit sent all chunks
of a large job, each later job would wait behind them. So it sends the first ones. The
others form the backlog of the job, from which workers draw by priority.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from piecework.errors import UsageError

#: Chunks of a job with normal priority that a submit sends as messages. They are enough
#: to wake a fleet, and delay another job by a few waves of chunks.
FIRST_CHUNKS: Final = 64


class Priority(StrEnum):
    """The share of a job's backlog in the free slots of the workers."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


def backlog_start(priority: Priority, chunks: int) -> int | None:
    """Return the first chunk of the backlog; None: the job needs no backlog.

    A job with another priority has all its chunks in the backlog: a message has no
    priority.
    """
    if priority is not Priority.NORMAL:
        return 0
    return FIRST_CHUNKS if chunks > FIRST_CHUNKS else None


def ordered_backlog_start(priority: Priority, heads: Sequence[int]) -> int | None:
    """Return the first chunk of the backlog of an ordered job, as `backlog_start`.

    `heads` has the first chunks of the order keys, and those without a key. It has at
    most one more than a submit sends. The other chunks follow one another, and need no
    backlog.
    """
    if priority is not Priority.NORMAL:
        return 0
    return heads[FIRST_CHUNKS] if len(heads) > FIRST_CHUNKS else None


def parse_priority(text: str) -> Priority:
    """Return a priority by its name.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    try:
        return Priority(text)
    except ValueError:
        message = f"{text!r} is not a priority: use {', '.join(Priority)}."
        raise UsageError(message) from None
