"""One request of each prefix goes first, so that the others find it in a cache.

A provider keeps the beginning of a prompt from the moment at which it begins to answer.
Requests that come before that moment pay for it in full, each of them.

cold   the first request goes; the others wait
       answered: they go    failed, cut off: the next of them goes first
       no end after MOST_WAIT_S: they go
warm   each request goes, for KEPT_S after the last that was answered
"""

from __future__ import annotations

import asyncio
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

#: Seconds that a request waits for another one, at most.
MOST_WAIT_S: Final = 10.0
#: Seconds after its last use for which a provider keeps a prefix, at least.
KEPT_S: Final = 300.0
#: Prefixes that are remembered: the last used.
PREFIXES_KEPT: Final = 256


@dataclass(slots=True, eq=False)
class _Prefix:
    """A prefix: `used_at` is when a request went that was answered; None: none was."""

    loop: weakref.ref[asyncio.AbstractEventLoop]
    until: float
    used_at: float | None = None
    first_ended: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class Turn:
    """The turn of one request: end it, however the request ended."""

    warming: Warming
    key: Hashable
    first_of: _Prefix | None
    went_at: float

    def end(self, *, answered: bool) -> None:
        """Let the others go, or the next of them go first."""
        prefix = self.warming.prefixes.get(self.key)
        if answered and prefix is not None:
            prefix.used_at = max(self.went_at, prefix.used_at or 0.0)
            prefix.first_ended.set()
        elif prefix is not None and prefix is self.first_of and prefix.used_at is None:
            del self.warming.prefixes[self.key]
            prefix.first_ended.set()


@dataclass(slots=True, eq=False)
class Warming:
    """The prefixes of one model, in this process.

    Attributes:
        prefix_of: Returns what the prompts of equal prefixes have in common, from the
            arguments of a call.
        prefixes: The last used, the latest last.
    """

    prefix_of: Callable[..., Hashable]
    prefixes: OrderedDict[Hashable, _Prefix] = field(default_factory=OrderedDict)

    async def turn(self, *args: Any, **kwargs: Any) -> Turn:
        """Wait until a call with these arguments may go; return its turn."""
        key = self.prefix_of(*args, **kwargs)
        loop = asyncio.get_running_loop()
        latest = loop.time() + MOST_WAIT_S
        while True:
            now, prefix = loop.time(), self.prefixes.get(key)
            if prefix is None or _is_cold(prefix, loop):
                prefix = _Prefix(weakref.ref(loop), now + MOST_WAIT_S)
                self.prefixes[key] = prefix
                if len(self.prefixes) > PREFIXES_KEPT:
                    self.prefixes.popitem(last=False)
                return Turn(self, key, prefix, now)
            if prefix.used_at is not None or now >= latest:
                self.prefixes.move_to_end(key)
                return Turn(self, key, None, now)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(prefix.until, latest)):
                    await prefix.first_ended.wait()


def _is_cold(prefix: _Prefix, loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether a request goes first: none has, or its prefix may be forgotten.

    A first request without an end is given up; a loop that ended took it along.
    """
    since = prefix.until if prefix.used_at is None else prefix.used_at + KEPT_S
    return loop.time() >= since or prefix.loop() is not loop
