"""Add up the calls of a job's chunks, also of those that run.

A settled claim has written its calls on the chunk. A claim that runs writes them with
each renewal of its lease, every third of a lease. So a chunk that ends before its first
renewal is seen at its end.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

from piecework.domain.budget import NANO
from piecework.domain.call_usage import CallUsage
from piecework.domain.chunk import Chunk
from piecework.domain.states import ChunkStatus

#: What a large job tells of its calls instead, where no certificate has it.
UNKNOWN = {"running": 0, "tokens_in": None, "tokens_out": None, "usd": None}


@dataclass(slots=True)
class CallsSoFar:
    """The calls of some chunks.

    Attributes:
        usage: What they used, those of present claims included.
        running: What the calls of present claims used among these.
    """

    usage: CallUsage = field(default_factory=lambda: CallUsage(most=sys.maxsize))
    running: CallUsage = field(default_factory=lambda: CallUsage(most=sys.maxsize))

    def add(self, chunk: Chunk) -> None:
        """Add a chunk."""
        self.usage.merge(chunk.usage_so_far)
        if chunk.status is ChunkStatus.RUNNING:
            self.running.merge(chunk.claim_usage)

    @property
    def facts(self) -> dict[str, Any]:
        """The paid calls of present claims; tokens, and the dollars that are known."""
        paid = self.usage.total("paid")
        return {
            "running": self.running.total("paid")["calls"],
            "tokens_in": paid["tokens_in"],
            "tokens_out": paid["tokens_out"],
            "usd": paid["nano_usd"] / NANO,
        }
