"""Compute something once for each pipeline of this process.

A schema takes milliseconds, and git hundredths of a second. A pipeline cannot be the
key of a mapping, because it holds mappings. So its identity is the key, and it is kept
beside the value: no other object gets its identity meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from piecework.pipelines import Pipeline

R = TypeVar("R")

#: Pipelines of a process, at most; a program may declare them in functions.
MOST = 1_000


def once_for_each(compute: Callable[[Pipeline], R]) -> Callable[[Pipeline], R]:
    """Return a function that computes its value once for each pipeline."""
    known: dict[int, tuple[Pipeline, R]] = {}

    @wraps(compute)
    def look_up(pipeline: Pipeline) -> R:
        found = known.get(id(pipeline))
        if found is None or found[0] is not pipeline:
            if len(known) >= MOST:
                known.clear()
            found = known[id(pipeline)] = pipeline, compute(pipeline)
        return found[1]

    return look_up
