"""Check the dead letters, at every write and at the end.

A dead letter is created open, and closed once: by a redrive or by a discard. While it
is open, an operator may resolve its compensation. A dead chunk has one letter, for its
current generation. A chunk has no open letter of another generation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from piecework.domain.outcome import CompensationResult
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus
from piecework.store.dead_letters import DISCARDED, OPEN, REDRIVEN
from piecework.store.serialization import from_item
from piecework_simulation.aws.dynamodb import Change

Item = dict[str, Any]

TRANSITIONS = {("", OPEN), (OPEN, OPEN), (OPEN, REDRIVEN), (OPEN, DISCARDED)}


@dataclass(slots=True)
class DeadLetterInvariants:
    """The dead letters that were written, and the list of the open ones.

    Attributes:
        compensable: The stages of each pipeline that declare a compensation.
    """

    report_violation: Callable[[str], None]
    compensable: Mapping[str, frozenset[str]] = field(default_factory=dict)
    letters: dict[tuple[str, str], Item] = field(default_factory=dict)
    open_list: set[tuple[str, str, int, int]] = field(default_factory=set)

    def check_write(self, change: Change) -> None:
        """Check a write to the dead-letter table against the valid transitions."""
        old = from_item(change.old) if change.old else {}
        new = from_item(change.new) if change.new else {}
        kind = (new or old).get("kind")
        if kind == "open":
            self.update_open_list(old, new)
        elif kind == "dead-letter":
            move = (old.get("state", ""), new.get("state", "nothing"))
            # An open letter is written again only to record something.
            if move not in TRANSITIONS or old == new:
                self.report_violation(
                    f"I4: dead letter {change.sk} moved {move[0]} -> {move[1]}"
                )
            self.letters[change.pk, change.sk] = new

    def uncompensated(self, ref: JobRef) -> list[str]:
        """Return a job's open dead letters whose compensation failed and can succeed.

        Nothing can compensate a stage that declares no compensation: an operator must
        resolve its effects by hand.
        """
        return [
            sk
            for (_, sk), item in self.letters.items()
            if (item["tenant"], item["job"], item["state"])
            == (ref.tenant, ref.job, OPEN)
            and item["compensation"] == CompensationResult.FAILED
            and self.compensable[item["pipeline"]] >= {*item["uncompensated_stages"]}
        ]

    def update_open_list(self, old: Item, new: Item) -> None:
        """Update the recorded list of open letters."""
        if new:
            self.open_list.add(chunk_name(new))
        else:
            self.open_list.discard(chunk_name(old))

    def check(self, chunks: Iterable[Item]) -> None:
        """Check that exactly the dead chunks have an open or discarded letter."""
        by_name = {chunk_name(item): item for item in self.letters.values()}
        open_ = {n for n, item in by_name.items() if item["state"] == OPEN}
        dead = {chunk_name(c) for c in chunks if c["status"] == ChunkStatus.DEAD}
        for name in sorted(open_ - dead):
            self.report_violation(f"I15: {name} is not dead but has an open letter")
        for name in sorted(dead - by_name.keys()):
            self.report_violation(f"I15: {name} is dead without a letter")
        for name in sorted(dead & by_name.keys()):
            if by_name[name]["state"] not in {OPEN, DISCARDED}:
                self.report_violation(f"I15: {name} is dead but its letter is redriven")
        for name in sorted(open_ ^ self.open_list):
            self.report_violation(f"I15: {name} differs from the open-letter list")


def chunk_name(item: Item) -> tuple[str, str, int, int]:
    """Return the tenant, job, chunk and generation of a chunk or of its letter."""
    return item["tenant"], item["job"], item["chunk"], item["gen"]
