"""Add up the calls of a job's chunks, also of those that run.

A settled claim has written its calls on the chunk. A claim that runs writes them with
each renewal of its lease, every third of a lease. So a chunk that ends before its first
renewal is seen at its end.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from piecework.domain.budget import NANO
from piecework.domain.call_usage import CallUsage
from piecework.domain.chunk import Chunk
from piecework.domain.states import ChunkStatus


def all_models() -> CallUsage:
    """Return an empty usage for the models of any number of chunks."""
    return CallUsage(most=sys.maxsize)


@dataclass(slots=True)
class CallsSoFar:
    """The calls of some chunks.

    Attributes:
        usage: What they used, those of present claims included.
        running: What the calls of present claims used among these.
        paid, cached: How many of settled claims were paid, or answered by others.
        lost_claims: Claims that ended without a settlement.
        paid_again: Pure calls that newer code made again.
    """

    usage: CallUsage = field(default_factory=all_models)
    running: CallUsage = field(default_factory=all_models)
    paid: int = 0
    cached: int = 0
    lost_claims: int = 0
    paid_again: int = 0

    @classmethod
    def of(cls, chunks: Iterable[Chunk]) -> Self:
        """Return the calls of chunks."""
        found = cls()
        for chunk in chunks:
            found.add(chunk)
        return found

    def add(self, chunk: Chunk) -> None:
        """Add a chunk."""
        self.usage.merge(chunk.usage_so_far)
        if chunk.status is ChunkStatus.RUNNING:
            self.running.merge(chunk.claim_usage)
        self.paid += chunk.calls
        self.cached += chunk.cached_calls
        self.lost_claims += len(chunk.lost_fences)
        self.paid_again += chunk.calls_paid_again

    def plus(self, other: CallsSoFar, times: float = 1.0) -> CallsSoFar:
        """Return the sum with other calls, which stand for so many times as many."""
        found = CallsSoFar()
        for name in ("usage", "running"):
            getattr(found, name).merge(getattr(self, name))
            getattr(found, name).merge(getattr(other, name).times(times))
        for name in ("paid", "cached", "lost_claims", "paid_again"):
            total = getattr(self, name) + round(getattr(other, name) * times)
            setattr(found, name, total)
        return found

    @property
    def facts(self) -> dict[str, Any]:
        """The calls by kind; tokens, and the dollars that are known, of the paid ones.

        `running`: the paid calls of present claims.
        """
        paid, running = self.usage.total("paid"), self.running.total("paid")["calls"]
        return {
            "paid": self.paid + running,
            "cached": self.cached + self.running.total("cached")["calls"],
            "lost_claims": self.lost_claims,
            "paid_again": self.paid_again,
            "running": running,
            "tokens_in": paid["tokens_in"],
            "tokens_out": paid["tokens_out"],
            "usd": paid["nano_usd"] / NANO,
        }
