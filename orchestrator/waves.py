"""How a canary redrive goes on: ever larger waves, until a cause comes back.

Pure: what a wave came to goes in, whether the next one begins comes out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

T = TypeVar("T")


class Verdict(StrEnum):
    """Whether the next wave begins."""

    GO_ON = "go on"
    #: What it was redriven for is not fixed.
    CAME_BACK = "came back"
    #: It died of something else, all of it.
    NOTHING_THROUGH = "nothing came through"
    #: Somebody stopped the job.
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Came:
    """What a wave came to.

    Attributes:
        died: How often each fingerprint was the end of one of its chunks.
    """

    redriven: int = 0
    succeeded: int = 0
    cancelled: int = 0
    died: Counter[str] = field(default_factory=Counter)


def waves(items: Sequence[T], first: int) -> Iterator[Sequence[T]]:
    """Cut into waves of `first`, twice as many, twice as many again."""
    begin, size = 0, first
    while begin < len(items):
        yield items[begin : begin + size]
        begin, size = begin + size, size * 2


def judge(came: Came, redriven_for: set[str]) -> Verdict:
    """Say whether the next wave begins.

    A wave that others had redriven before says nothing against the next one.
    """
    if redriven_for & came.died.keys():
        return Verdict.CAME_BACK
    if came.cancelled:
        return Verdict.CANCELLED
    if came.redriven and not came.succeeded:
        return Verdict.NOTHING_THROUGH
    return Verdict.GO_ON
