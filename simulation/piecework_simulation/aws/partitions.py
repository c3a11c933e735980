"""Store the items that share a partition key, ordered by their sort keys.

An item is never modified, only replaced, so that a returned item is a snapshot. The
state before the last write is kept for stale reads.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from piecework_simulation.aws.values import WireItem, item_size

#: Returns the range of a partition's sort keys that a query selects: begin, end.
Cut: TypeAlias = Callable[[list[str]], tuple[int, int]]


@dataclass(slots=True)
class Partition:
    """The items of one partition key.

    Attributes:
        items: Each item by its sort key.
        order: The sort keys, in order.
        sizes: The size that DynamoDB counts for each item, in bytes.
        before: Each item as it was before its last write.
        undone: The items that the last write request changed, as they were before.
    """

    items: dict[str, WireItem] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    before: dict[str, WireItem | None] = field(default_factory=dict)
    undone: dict[str, WireItem | None] = field(default_factory=dict)
    written: int = 0

    def write(self, sk: str, new: WireItem | None, size: int, request: int) -> None:
        """Replace, create or drop an item; writes of one request count as one."""
        if self.written != request:
            self.written, self.undone = request, {}
        old = self.items.get(sk)
        self.before[sk] = self.undone[sk] = old
        if new is not None:
            if old is None:
                insort(self.order, sk)
            self.items[sk], self.sizes[sk] = new, size
        elif old is not None:
            del self.items[sk], self.sizes[sk]
            del self.order[bisect_left(self.order, sk)]

    def read(self, sk: str, *, stale: bool = False) -> WireItem | None:
        """Return an item; a stale read returns its state before the last write."""
        if stale and sk in self.before:
            return self.before[sk]
        return self.items.get(sk)

    def rows(
        self, cut: Cut, after: str = "", *, forward: bool = True, stale: bool = False
    ) -> Iterator[tuple[WireItem, int]]:
        """Yield the selected items with their sizes, after a sort key."""
        items, order, sizes = self.items, self.order, self.sizes
        if stale and self.undone:
            then = {**items, **self.undone}
            items = {sk: item for sk, item in then.items() if item is not None}
            order, sizes = sorted(items), {k: item_size(v) for k, v in items.items()}
        begin, end = cut(order)
        if after and forward:
            begin = max(begin, bisect_right(order, after))
        elif after:
            end = min(end, bisect_left(order, after))
        places = range(begin, end) if forward else range(end - 1, begin - 1, -1)
        for place in places:
            sk = order[place]
            yield items[sk], sizes[sk]


def everything(order: list[str]) -> tuple[int, int]:
    """Cut nothing off."""
    return 0, len(order)


def beginning(prefix: str) -> Cut:
    """Return the cut of the keys that begin so."""

    def cut(order: list[str]) -> tuple[int, int]:
        begin = bisect_left(order, prefix)
        # False sorts before True: this finds the first key without the prefix.
        past = bisect_right(order, 0, begin, key=lambda sk: not sk.startswith(prefix))
        return begin, past

    return cut


def between(low: str, high: str) -> Cut:
    """Return the range from one key to another, both included."""
    return lambda order: (bisect_left(order, low), bisect_right(order, high))


def compared(sign: str, key: str) -> Cut:
    """Return the cut of the keys that compare so with a key."""
    cuts: dict[str, Cut] = {
        "=": between(key, key),
        "<": lambda order: (0, bisect_left(order, key)),
        "<=": lambda order: (0, bisect_right(order, key)),
        ">": lambda order: (bisect_right(order, key), len(order)),
        ">=": lambda order: (bisect_left(order, key), len(order)),
    }
    return cuts[sign]
