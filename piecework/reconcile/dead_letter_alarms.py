"""Give an alarm when dead letters pile up, or when nobody looks after an old one.

Both are read from the list of open letters: two queries of a few rows a look, a few
looks a window, whatever the number of letters. An alarm is given once by all the
reconcilers together, and again only after its window, if it is still so then.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import structlog

from piecework import telemetry
from piecework.model import iso, moment
from piecework.runtime import Runtime
from piecework.store.alarms import raise_alarm
from piecework.store.open_letters import newest, oldest

#: Reads in each window, or age.
LOOKS = 5
#: Open letters that are counted: a page of the list, read anyway.
COUNTED = 100


@dataclass(slots=True)
class DeadLetterAlarms:
    """The alarms of one tenant, as one reconciler sees to them.

    Attributes:
        open_letters: How many there are, up to `COUNTED`; None: nobody has looked.
        oldest_at: When the oldest of them was written; empty: there is none.
    """

    rt: Runtime
    log: structlog.stdlib.BoundLogger
    open_letters: int | None = None
    oldest_at: str = ""
    _next: float = 0.0

    async def look(self, now: float) -> Counter[str]:
        """Evaluate the alarms if they are due on the loop's clock."""
        settings = self.rt.settings
        if now < self._next or not settings.dead_letter_alarm:
            return Counter()
        window, age = settings.dead_letter_alarm_window_s, settings.dead_letter_age_s
        self._next = now + min(window, age) / LOOKS
        given = await self._too_many(window), await self._too_old(age)
        return Counter({"alarm given": sum(given)})

    def oldest_s(self, now: float) -> float | None:
        """Return the age of the oldest open letter; None: nobody has looked."""
        if self.open_letters is None:
            return None
        return max(0.0, now - moment(self.oldest_at)) if self.oldest_at else 0.0

    async def _too_many(self, window: float) -> bool:
        rt, most = self.rt, self.rt.settings.dead_letter_alarm
        now = rt.clock()
        count = max(COUNTED, most + 1)
        found = await newest(rt.dead_letters, rt.settings.tenant, count)
        self.open_letters = min(COUNTED, len(found))
        if len(found) <= most or found[most]["dead_lettered_at"] < iso(now - window):
            return False
        return await self._give(
            "arrivals", now, window, more_than=most, window_s=window
        )

    async def _too_old(self, age: float) -> bool:
        rt, now = self.rt, self.rt.clock()
        found = await oldest(rt.dead_letters, rt.settings.tenant)
        self.oldest_at = str(found["dead_lettered_at"]) if found else ""
        if found is None or found["dead_lettered_at"] > iso(now - age):
            return False
        facts = {"job": found["job"], "chunk": found["chunk"]}
        dead_lettered_at = found["dead_lettered_at"]
        return await self._give(
            "age", now, age, age_s=age, dead_lettered_at=dead_lettered_at, **facts
        )

    async def _give(self, about: str, now: float, quiet_s: float, **facts: Any) -> bool:
        table, tenant = self.rt.dead_letters, self.rt.settings.tenant
        ours = await raise_alarm(table, tenant, about, now=now, quiet_s=quiet_s)
        if ours:
            telemetry.emit(self.log, "dlq.alarm", tenant=tenant, about=about, **facts)
        return ours
