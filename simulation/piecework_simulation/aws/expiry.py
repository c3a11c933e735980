"""DynamoDB's time to live: items are deleted some time after it, free of charge.

AWS deletes none before its time, and most within a few days after it, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Final

from piecework_simulation.aws.values import WireItem

#: The attribute that all tables declare.
ATTRIBUTE: Final = "expires_at"
#: Seconds after which an expired item is certainly gone; AWS promises none.
LATEST_S: Final = 3 * 86_400.0


@dataclass(slots=True)
class Expiry:
    """The items with a time to live, by the moment at which each is deleted.

    Attributes:
        rng: Draws how late that is; its own, so that it changes no other draw.
    """

    rng: Random = field(default_factory=lambda: Random(0))
    _due: list[tuple[float, str, str, str, str]] = field(default_factory=list)

    def note(self, table: str, pk: str, sk: str, item: WireItem | None) -> None:
        """Note an item as it was written."""
        if item is None or ATTRIBUTE not in item:
            return
        ends = item[ATTRIBUTE].get("N", "")
        if ends.isdigit():
            at = float(ends) + self.rng.uniform(0, LATEST_S)
            heappush(self._due, (at, table, pk, sk, ends))

    def due(self, now: float) -> tuple[str, str, str, str] | None:
        """Return table, key and time of an item to delete now, if it still has it."""
        if not self._due or self._due[0][0] > now:
            return None
        return heappop(self._due)[1:]
