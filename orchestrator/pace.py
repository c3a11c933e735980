"""Hand chunks out at a rate, whoever sends their messages.

Each chunk has its turn on its own item, before which no worker claims it: the rate
holds though a reconciler sends again, and though whoever redrives is gone by then.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from piecework.model import ChunkRef
from piecework.store.reopen import Turn

#: Seconds that SQS delays a message at the most. For later turns no message is sent:
#: the reconciler sends it when the turn has come.
FURTHEST_S = 900.0
#: Seconds after its turn at which a chunk counts as never sent.
QUIET_S = 30.0


@dataclass(frozen=True, slots=True)
class Pace:
    """So many chunks a second, from a moment on."""

    rate: float
    begun: float

    def turn(self, position: int) -> Turn:
        """Return when a chunk has its turn, and when it is overdue."""
        after = position / self.rate
        at = self.begun + after
        return Turn(at, at + (QUIET_S if after <= FURTHEST_S else 0.0))

    def delays(self, refs: Sequence[ChunkRef], now: float) -> dict[int, list[ChunkRef]]:
        """Return the chunks to send by the seconds that their messages wait."""
        found: dict[int, list[ChunkRef]] = defaultdict(list)
        for position, ref in enumerate(refs):
            wait = self.turn(position).not_before - now
            if wait <= FURTHEST_S:
                found[max(math.ceil(wait), 0)].append(ref)
        return found
