"""Reads that all open pages share, each repeated no sooner than its price allows.

On AWS the meter of the process says how many read units a read took. So a page of any
size costs about the same: a large job is read less often. A store on this machine costs
nothing but time: it is read again within a second, and at rest for most of the time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from piecework.cost.attribution import WHOLE
from piecework.cost.meter import CostMeter
from piecework.runtime import Runtime

R = TypeVar("R")

#: Seconds between two reads at least: on AWS, and of a store on this machine.
POLL_S, LOCAL_POLL_S = 2.0, 0.5
#: A store on this machine is at rest for so many times the duration of a read.
REST: Final = 4.0
#: Reads that are kept at most; those of the oldest are dropped first.
MAX_KEPT: Final = 500
#: The operations that take read units.
SENT: Final = "__requests"
READS: Final = ("GetItem", "BatchGetItem", "Query", "Scan")


@dataclass(slots=True)
class Kept:
    """A read: what was read in which state, when, and for how long it is shown."""

    state: Hashable
    value: Any
    at: float
    for_s: float


@dataclass(slots=True)
class Pacing:
    """The reads of one start of the page.

    Attributes:
        chosen_s: Seconds between two reads at least, as an operator has chosen; None:
            by the store.
        timer: Measures how long a read takes, in seconds.
    """

    rt: Runtime
    chosen_s: float | None = None
    timer: Callable[[], float] = time.monotonic
    _kept: dict[Hashable, Kept] = field(default_factory=dict)
    _locks: dict[Hashable, asyncio.Lock] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether reads are free: the store is on this machine, no operator chose."""
        return self.chosen_s is None and not self.rt.cost.trusted

    @property
    def poll_s(self) -> float:
        """Seconds between two reads at least."""
        if self.chosen_s is not None:
            return self.chosen_s
        return LOCAL_POLL_S if self.is_local else POLL_S

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
            before, began = read_units(self.rt.cost), self.timer()
            value = await read()
            units = max(0.0, read_units(self.rt.cost) - before)
            took_s = self.timer() - began
            self._kept.pop(key, None)
            price_s = REST * took_s if self.is_local else units / units_per_s
            for_s = max(self.poll_s, price_s)
            self._kept[key] = Kept(state, value, now, for_s)
            if len(self._kept) > MAX_KEPT:
                oldest = next(iter(self._kept))
                del self._kept[oldest]
                self._locks.pop(oldest, None)
            return value

    def is_kept(self, key: Hashable, state: Hashable) -> bool:
        """Return whether something need not be read now."""
        kept, now = self._kept.get(key), self.rt.clock()
        return kept is not None and kept.state == state and now < kept.at + kept.for_s

    def forget(self, key: Hashable) -> None:
        """Read something again at the next request."""
        self._kept.pop(key, None)

    def forget_kind(self, kind: str) -> None:
        """Read everything again whose key is a tuple that begins with this word."""
        for key in [key for key in self._kept if isinstance(key, tuple)]:
            if key[0] == kind:
                self.forget(key)

    def for_s(self, key: Hashable) -> float:
        """Return the seconds for which a read is shown."""
        kept = self._kept.get(key)
        return kept.for_s if kept else self.poll_s


def requests_of(meter: CostMeter) -> int:
    """Return the requests to AWS that a process has sent so far."""
    counts = [account.counts for account in meter.accounts.values()]
    sent = (n for count in counts for name, n in count.items() if name.endswith(SENT))
    return sum(sent) // WHOLE


def read_units(meter: CostMeter) -> float:
    """Return the read units that a process has taken so far."""
    names = [f"op__{operation}__units" for operation in READS]
    counts = [account.counts for account in meter.accounts.values()]
    return sum(count.get(name, 0) for count in counts for name in names) / WHOLE
