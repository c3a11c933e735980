"""The simulator's invariants, held against the change log of a soak."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from piecework.store.serialization import to_item
from piecework_simulation.aws import dynamodb
from piecework_simulation.invariants.checker import Invariants
from verification.soak.record import Change, Limits

TABLE = "checkpoints"


class SimulatorInvariants:
    """The invariants of chunks and jobs; who sent a write, the stream does not tell."""

    def __init__(self, limits: Limits) -> None:
        self.at = 0.0
        settings = SimpleNamespace(
            checkpoints_table=TABLE,
            lease_s=limits.lease_s,
            max_attempts=limits.max_attempts,
            max_releases=limits.max_releases,
            max_takeovers=limits.max_takeovers,
        )
        world: Any = SimpleNamespace(
            settings=settings,
            now=lambda: self.at,
            sender=None,
            sent_at=0.0,
            traced=False,
            note=lambda *_: None,
        )
        provider: Any = SimpleNamespace(input_faults=limits.poison)
        self.invariants = Invariants(world, provider)
        self.seen: dict[tuple[str, str], Any] = {}

    def judge(self, change: Change) -> Iterator[str]:
        """Yield what a write violates."""
        if change.kind not in {"CHUNK", "META"}:
            return
        self.at = change.at
        place = change.pk, change.sk
        old, new = self.seen.get(place), None
        if change.new is not None:
            new = self.seen[place] = to_item(change.new)
        write = dynamodb.Change(TABLE, *place, old, new)
        told = len(self.invariants.violations)
        self.invariants.check_write([write])
        yield from self.invariants.violations[told:]
