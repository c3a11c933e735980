"""How a fault is planted in a clean history: lost, forged, moved, repeated records."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from verification.soak.history import check
from verification.soak.record import Change, Record
from verification.soak.sample import LIMITS, clean


@dataclass
class History:
    """The clean history, and what is done to it."""

    records: dict[str, Record] = field(default_factory=clean)

    def rules(self) -> set[str]:
        return {found.rule for found in check(self.records.values(), LIMITS)}

    def change(self, label: str) -> Change:
        record = self.records[label]
        assert isinstance(record, Change)
        return record

    def fake(self, label: str, remove: str = "", **facts: Any) -> None:
        """Let an item say something else."""
        change = self.change(label)
        kept = {k: v for k, v in (change.new or {}).items() if k != remove}
        self.records[label] = replace(change, new={**kept, **facts})

    def lose(self, *labels: str) -> None:
        for label in labels:
            del self.records[label]

    def again(self, label: str, after: str, **facts: Any) -> None:
        """Let a write happen once more, after another record."""
        change, at = self.change(label), self.records[after].at + 0.001
        new = {**(change.new or {}), **facts}
        self.records["again"] = replace(change, at=at, seq=99, new=new)

    def move(self, label: str, after: str) -> None:
        at = self.records[after].at + 0.001
        self.records[label] = replace(self.records[label], at=at)

    def add(self, after: str, record: Record) -> None:
        at = self.records[after].at + 0.001
        self.records["added"] = replace(record, at=at)
