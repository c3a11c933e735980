"""What may become of a dead letter, checked at every write and at the end.

A letter is written open and closed once, by a redrive or by a discard. A chunk that
is dead has one that tells of this death, and no chunk has an open one of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from piecework.model import ChunkStatus
from piecework.store.dead_letters import DISCARDED, OPEN, REDRIVEN
from piecework.store.wire import from_item
from simulation.cloud.dynamodb import Change

Item = dict[str, Any]

MOVES = {("", OPEN), (OPEN, REDRIVEN), (OPEN, DISCARDED)}


@dataclass(slots=True)
class LetterBook:
    """The letters that were written, and the list of those that are open."""

    break_: Callable[[str], None]
    letters: dict[tuple[str, str], Item] = field(default_factory=dict)
    listed: set[tuple[str, int, int]] = field(default_factory=set)

    def written(self, change: Change) -> None:
        """Hold a write to the table of dead letters against the moves of a letter."""
        old = from_item(change.old) if change.old else {}
        new = from_item(change.new) if change.new else {}
        kind = (new or old).get("kind")
        if kind == "open":
            self.list_(old, new)
        elif kind == "dead-letter":
            move = (old.get("letter_state", ""), new.get("letter_state", "nothing"))
            if move not in MOVES:
                self.break_(f"I4: the letter {change.sk} went {move[0]} -> {move[1]}")
            self.letters[change.pk, change.sk] = new

    def list_(self, old: Item, new: Item) -> None:
        """Keep the list of open letters as the table has it."""
        if new:
            self.listed.add(name_of(new))
        else:
            self.listed.discard(name_of(old))

    def check(self, chunks: Iterable[Item]) -> None:
        """Check that each dead chunk has its one letter, and no other is open."""
        by_name = {name_of(item): item for item in self.letters.values()}
        open_ = {n for n, item in by_name.items() if item["letter_state"] == OPEN}
        dead = {name_of(c) for c in chunks if c["status"] == ChunkStatus.DEAD}
        for name in sorted(open_ - dead):
            self.break_(f"I15: {name} is not dead, and its letter is open")
        for name in sorted(dead - by_name.keys()):
            self.break_(f"I15: {name} is dead without a letter")
        for name in sorted(dead & by_name.keys()):
            if by_name[name]["letter_state"] not in {OPEN, DISCARDED}:
                self.break_(f"I15: {name} is dead, and its letter was redriven")
        for name in sorted(open_ ^ self.listed):
            self.break_(f"I15: {name} and the list of open letters disagree")


def name_of(item: Item) -> tuple[str, int, int]:
    """Return the job, the chunk and the generation of a chunk or of its letter."""
    return item["job"], item["chunk"], item["gen"]
