"""Check that a cancel and the first intent of a pivot exclude each other.

Until a pivot has an intent, a cancel stops its chunk there. From then on the chunk goes
forward, and no stage of it is compensated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from piecework.domain.outcome import CompensationResult
from piecework.domain.states import ChunkStatus
from piecework.store.effects import INTENT, MAY_HAVE_HAPPENED

Item = Mapping[str, Any]


@dataclass(slots=True)
class PivotInvariants:
    """The effects of pivots that may have happened, by chunk.

    Attributes:
        pivots: The name of each pipeline's pivot; empty without one.
    """

    report_violation: Callable[[str], None]
    pivots: Mapping[str, str] = field(default_factory=dict)
    acted: dict[tuple[str, int], set[str]] = field(
        default_factory=lambda: defaultdict(set)
    )

    def check_effect(self, job: Item, job_pk: str, chunk: Item, row: Item) -> None:
        """Check a write to an effect of a chunk."""
        if self.pivots.get(job.get("pipeline", "")) != row.get("stage"):
            return
        key, acted = row["effect_key"], self.acted[job_pk, chunk["chunk"]]
        first = not acted and row["state"] == INTENT
        if first and "cancel_requested_at" in chunk:
            name = f"{chunk['job']}/{chunk['chunk']}"
            self.report_violation(f"I18: the pivot of {name} began after its cancel")
        if row["state"] in MAY_HAVE_HAPPENED:
            acted.add(key)
        else:
            acted.discard(key)

    def check_chunk(self, job_pk: str, chunk: Item) -> None:
        """Check that a compensated chunk has no effect of its pivot."""
        compensated = chunk.get("compensation") == CompensationResult.COMPENSATED
        cancelled = chunk["status"] == ChunkStatus.CANCELLED
        if cancelled and compensated and self.acted[job_pk, chunk["chunk"]]:
            name = f"{chunk['job']}/{chunk['chunk']}"
            self.report_violation(f"I18: {name} is compensated, and its pivot acted")
