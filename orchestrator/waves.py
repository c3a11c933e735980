"""Decide how a canary redrive continues: larger waves, until a cause recurs.

Pure: a wave's result goes in, and whether the next wave starts comes out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

T = TypeVar("T")


class Verdict(StrEnum):
    """Whether the next wave starts, or why it does not."""

    CONTINUE = "continue"
    #: A redriven cause killed a chunk again: it is not fixed.
    CAUSE_RECURRED = "cause recurred"
    #: Every chunk of the wave died of other causes.
    NONE_SUCCEEDED = "none succeeded"
    #: An operator cancelled the job meanwhile.
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class WaveResult:
    """The statuses of a wave's chunks after their jobs have ended.

    Attributes:
        died: The number of chunks that died again, by fingerprint.
    """

    redriven: int = 0
    succeeded: int = 0
    cancelled: int = 0
    died: Counter[str] = field(default_factory=Counter)


def split_into_waves(items: Sequence[T], first: int) -> Iterator[Sequence[T]]:
    """Yield waves of `first` items, then twice as many, doubling each time."""
    begin, size = 0, first
    while begin < len(items):
        yield items[begin : begin + size]
        begin, size = begin + size, size * 2


def judge_wave(result: WaveResult, fingerprints: set[str]) -> Verdict:
    """Return whether the next wave starts, given the fingerprints that are redriven.

    A wave without any redriven letter lets the next wave start: others had redriven its
    letters before.
    """
    if fingerprints & result.died.keys():
        return Verdict.CAUSE_RECURRED
    if result.cancelled:
        return Verdict.CANCELLED
    if result.redriven and not result.succeeded:
        return Verdict.NONE_SUCCEEDED
    return Verdict.CONTINUE
