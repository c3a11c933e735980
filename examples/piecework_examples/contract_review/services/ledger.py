"""The add-in's own books: what took effect, under any key.

The books are kept by clause and operation. So they show a worker that does something
twice under two keys.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

Place = tuple[str, int]


@dataclass(slots=True)
class Answer:
    """What a key was answered, and to which request."""

    request: str
    status: int
    body: dict[str, Any]


@dataclass(slots=True)
class Ledger:
    """Effects, answers by key, and slots, in memory."""

    effects: Counter[tuple[str, int, str]] = field(default_factory=Counter)
    duplicates: list[tuple[str, int, str]] = field(default_factory=list)
    slots: dict[Place, str] = field(default_factory=dict)
    filled: set[Place] = field(default_factory=set)
    answers: dict[str, Answer] = field(default_factory=dict)
    replays: int = 0
    conflicts: int = 0
    reserved: int = 0

    def reserve(self, place: Place) -> dict[str, Any]:
        """Open a slot; a second one for a clause is an effect too many."""
        self._book(place, "reserve", twice=place in self.slots)
        self.reserved += 1
        self.slots[place] = f"slot-{self.reserved}"
        return {"slot": self.slots[place]}

    def release(self, place: Place) -> dict[str, Any]:
        """Release a slot; do nothing if there is none or it is filled."""
        open_one = place in self.slots and place not in self.filled
        if open_one:
            self._book(place, "release", twice=False)
            del self.slots[place]
        return {"released": open_one}

    def publish(self, place: Place, findings: list[Any]) -> dict[str, Any]:
        """Fill a slot: the reader sees the findings."""
        self._book(place, "publish", twice=place in self.filled)
        self.filled.add(place)
        return {"comments": len(findings)}

    def notify(self, place: Place) -> dict[str, Any]:
        """Tell the reader; telling twice is an effect too many."""
        self._book(place, "notify", twice=(*place, "notify") in self.effects)
        return {"notified": True}

    def shown(self, job: str | None = None) -> dict[str, Any]:
        """Return the books, of one job or of all."""
        effects = {k: n for k, n in self.effects.items() if job in {None, k[0]}}
        by_operation: Counter[str] = Counter()
        for (_, _, operation), times in effects.items():
            by_operation[operation] += times
        duplicates = [d for d in self.duplicates if job in {None, d[0]}]
        still_open = self.slots.keys() - self.filled
        return {
            "effects": dict(sorted(by_operation.items())),
            "duplicate_effects": len(duplicates),
            "duplicates": [_row(key) for key in duplicates],
            "slots_open": sorted(p for p in still_open if job in {None, p[0]}),
            "by_clause": [{**_row(k), "times": n} for k, n in effects.items()],
            "replays": self.replays,
            "conflicts": self.conflicts,
        }

    def _book(self, place: Place, operation: str, *, twice: bool) -> None:
        self.effects[*place, operation] += 1
        if twice:
            self.duplicates.append((*place, operation))

    def dump(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {
            "effects": [[*key, times] for key, times in self.effects.items()],
            "duplicates": self.duplicates,
            "slots": [[*place, slot] for place, slot in self.slots.items()],
            "filled": sorted(self.filled),
            "answers": {key: asdict(answer) for key, answer in self.answers.items()},
            "replays": self.replays,
            "conflicts": self.conflicts,
            "reserved": self.reserved,
        }

    @classmethod
    def load(cls, kept: dict[str, Any]) -> Ledger:
        """Return the books of an earlier process."""
        return cls(
            Counter({(j, c, op): times for j, c, op, times in kept["effects"]}),
            [(j, c, op) for j, c, op in kept["duplicates"]],
            {(job, clause): slot for job, clause, slot in kept["slots"]},
            {(job, clause) for job, clause in kept["filled"]},
            {key: Answer(**answer) for key, answer in kept["answers"].items()},
            kept["replays"],
            kept["conflicts"],
            kept["reserved"],
        )


def _row(key: tuple[str, int, str]) -> dict[str, Any]:
    return dict(zip(("job", "clause", "operation"), key, strict=True))
