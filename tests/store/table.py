"""The table of conditional writes: a row before, an act, and what it leaves.

Each test file of a noun has the cases of its writes; `test_writes.py` proves for all of
them what holds for each.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from piecework.domain import keys
from tests.store.conftest import Store


def of_chunk(store: Store) -> tuple[str, str]:
    return store.chunk.pk, store.chunk.sk


def of_job(store: Store) -> tuple[str, str]:
    return store.ref.pk, keys.META_SK


@dataclass(frozen=True, kw_only=True)
class Case:
    """A conditional write of one row.

    Attributes:
        before: Lays the row down, and returns what the process has read of it.
        key: The key of the row.
        left: Attributes that the row has afterwards; None: it lacks them.
        moved: Changes since the read; under each of them the write is refused.
        refused: The answer then, or the error.
        requests: How many it takes if the answer to the first is lost; 0: the process
            does not know its own write again.
        is_once: Whether one of many processes that read the same is told that it wrote.
    """

    name: str
    before: Callable[[Store], Awaitable[Any]]
    act: Callable[[Store, Any], Awaitable[Any]]
    left: Mapping[str, Any] = field(default_factory=dict)
    moved: Sequence[Mapping[str, Any]] = ()
    key: Callable[[Store], tuple[str, str]] = of_chunk
    refused: Any = False
    requests: int = 0
    is_once: bool = False
