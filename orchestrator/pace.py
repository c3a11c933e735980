"""Dispatch chunks at a rate, whichever process sends their messages.

Each chunk keeps its dispatch slot on its own item, and no worker claims it before that
time. So the rate holds even if a reconciler sends the messages again, or if the process
that redrives has ended.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from piecework.model import ChunkRef
from piecework.store.reopen import Schedule

#: Seconds that SQS delays a message at most. For later slots no message is sent here:
#: the reconciler sends it when the slot is due.
MAX_SQS_DELAY_S = 900.0
#: Seconds after its slot at which the reconciler treats a message as lost.
LOST_AFTER_S = 30.0


@dataclass(frozen=True, slots=True)
class DispatchRate:
    """A number of chunks a second, counted from a start time in epoch seconds."""

    per_second: float
    started_at: float

    def slot(self, position: int) -> Schedule:
        """Return when a chunk may be claimed, and when its message counts as lost."""
        after = position / self.per_second
        at = self.started_at + after
        return Schedule(at, at + (LOST_AFTER_S if after <= MAX_SQS_DELAY_S else 0.0))

    def group_by_delay(
        self, refs: Sequence[ChunkRef], now: float
    ) -> dict[int, list[ChunkRef]]:
        """Return the chunks to send, by the delay of their messages in seconds.

        Chunks whose slot is further away than SQS can delay are left out.
        """
        found: dict[int, list[ChunkRef]] = defaultdict(list)
        for position, ref in enumerate(refs):
            delay = self.slot(position).not_before - now
            if delay <= MAX_SQS_DELAY_S:
                found[max(math.ceil(delay), 0)].append(ref)
        return found
