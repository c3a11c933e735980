"""Reads that all open pages share, each repeated no sooner than its price allows.

The meter of the process says how many read units a read took. So a page of any size
costs about the same: a large job is read less often.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from piecework.cost.attribution import WHOLE
from piecework.cost.meter import CostMeter
from piecework.runtime import Runtime

R = TypeVar("R")

#: Seconds between two reads at least.
POLL_S: Final = 2.0
#: Reads that are kept at most; those of the oldest are dropped first.
MAX_KEPT: Final = 500
#: The operations that take read units.
READS: Final = ("GetItem", "Query", "Scan")


@dataclass(slots=True)
class Kept:
    """A read: what was read in which state, when, and for how long it is shown."""

    state: Hashable
    value: Any
    at: float
    for_s: float


@dataclass(slots=True)
class Pacing:
    """The reads of one start of the page."""

    rt: Runtime
    _kept: dict[Hashable, Kept] = field(default_factory=dict)
    _locks: dict[Hashable, asyncio.Lock] = field(default_factory=dict)

    async def get(
        self,
        key: Hashable,
        read: Callable[[], Awaitable[R]],
        units_per_s: float,
        *,
        state: Hashable = None,
        final: bool = False,
    ) -> R:
        """Return what was read under a key; read it again if its time is over.

        Args:
            key: What is read, with its parameters.
            read: Reads it.
            units_per_s: The read units that this read may take in a second.
            state: If it differs from that of the last read, that is out of date.
            final: What is read does not change any more while its state stays.
        """
        async with self._locks.setdefault(key, asyncio.Lock()):
            kept = self._kept.get(key)
            now = self.rt.clock()
            if kept and kept.state == state and (final or now < kept.at + kept.for_s):
                return kept.value  # type: ignore[no-any-return]
            before = read_units(self.rt.cost)
            value = await read()
            units = max(0.0, read_units(self.rt.cost) - before)
            self._kept.pop(key, None)
            for_s = max(POLL_S, units / units_per_s)
            self._kept[key] = Kept(state, value, now, for_s)
            if len(self._kept) > MAX_KEPT:
                oldest = next(iter(self._kept))
                del self._kept[oldest]
                self._locks.pop(oldest, None)
            return value

    def forget(self, key: Hashable) -> None:
        """Read something again at the next request."""
        self._kept.pop(key, None)

    def for_s(self, key: Hashable) -> float:
        """Return the seconds for which a read is shown."""
        kept = self._kept.get(key)
        return kept.for_s if kept else POLL_S


def read_units(meter: CostMeter) -> float:
    """Return the read units that a process has taken so far."""
    names = [f"op__{operation}__units" for operation in READS]
    counts = [account.counts for account in meter.accounts.values()]
    return sum(count.get(name, 0) for count in counts for name in names) / WHOLE
