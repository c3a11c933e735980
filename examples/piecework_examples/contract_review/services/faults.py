"""Planned faults: the seed decides which try of which request fails, and how.

A draw depends on the content of a request and the number of its try. The order of
requests does not change it. So two runs with one seed meet the same faults, however
their workers interleave.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Fault(StrEnum):
    """A way to fail."""

    THROTTLED = "throttled"  # 429 with Retry-After
    UNAVAILABLE = "unavailable"  # 503
    HANG = "hang"  # no answer until the caller gives up
    MALFORMED = "malformed"  # 200, and a body that is cut off
    LOST = "lost"  # carried out, but the connection breaks before the answer


MODEL_MIX: Final = MappingProxyType(
    {Fault.THROTTLED: 60, Fault.UNAVAILABLE: 25, Fault.MALFORMED: 10, Fault.HANG: 5}
)
ADDIN_MIX: Final = MappingProxyType(
    {Fault.THROTTLED: 40, Fault.UNAVAILABLE: 30, Fault.LOST: 30}
)


@dataclass(frozen=True, slots=True)
class Faults:
    """How often and how requests fail.

    Attributes:
        rate: The share of requests that fail on a try.
        tries: The number of first tries of a request that may fail. A client with one
            try more gets through.
        mix: The kinds of failures and their weights.
    """

    seed: int = 0
    rate: float = 0.0
    tries: int = 2
    mix: Mapping[Fault, int] = field(default_factory=lambda: MODEL_MIX)

    def draw(self, content: str, attempt: int) -> Fault | None:
        """Return how this try of this request fails, or None when it does not."""
        if attempt > self.tries:
            return None
        drawn = hashlib.sha256(f"{self.seed}:{content}:{attempt}".encode()).digest()
        if _share(drawn[:8]) >= self.rate:
            return None
        point = _share(drawn[8:16]) * sum(self.mix.values())
        for fault, weight in self.mix.items():
            point -= weight
            if point < 0:
                return fault
        return None


def _share(drawn: bytes) -> float:
    """Return the bytes as a number from 0 to below 1."""
    return int.from_bytes(drawn) / (1 << 8 * len(drawn))
