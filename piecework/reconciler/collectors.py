"""Start a worker for a collector that is needed while none runs.

Only workers have the clients of models, so only they collect. Chunks that wait for
batches have no message, and a fleet without messages shrinks to zero. A message about
one of these chunks starts a worker. The worker does not claim it, because it is not
due; but it looks whether a collector is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import ValidationError

from piecework.aws.queue import Message
from piecework.domain.batch import CollectorRow
from piecework.domain.moments import moment
from piecework.runtime import Runtime

#: Seconds until the next message for a collector that is late.
AGAIN_S: Final = 300.0


@dataclass(slots=True)
class Collectors:
    """The collectors that a reconciler watches."""

    rt: Runtime
    _sent_at: dict[tuple[str, str], float] = field(default_factory=dict)

    async def nudge(self, rows: Mapping[tuple[str, str], CollectorRow]) -> Counter[str]:
        """Send a message for each collector that is late."""
        now, sent = self.rt.clock(), 0
        for place, row in rows.items():
            if not row.is_late(now) or now - self._sent_at.get(place, 0.0) < AGAIN_S:
                continue
            self._sent_at[place] = now
            about = dict(row.nudge)
            queue = str(about.pop("queue", ""))
            try:
                message = Message(**about)
            except ValidationError:
                continue  # an operator has edited the row
            await self.rt.work.send([message], to=queue)
            sent += 1
        return Counter({"collectors started": sent} if sent else {})


def oldest_s(rows: Iterable[CollectorRow], now: float) -> float:
    """Return the age of the oldest open batch in seconds; 0 without one."""
    planned = [moment(row.open_since) for row in rows if row.open_since]
    return max((now - at for at in planned), default=0.0)
