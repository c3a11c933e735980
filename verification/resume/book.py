"""Judge what a killed run has paid for, by the lines that its calls wrote.

    begin ROW           a paid call starts
    end ROW             the stage has its answer
    effect ROW KEY      the other system executes an effect, or knows its key already
    start               a process begins

The lines of a process end at its kill: what began and did not end was in flight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Figures:
    """What the kills of a run have cost.

    A call is in flight until its stage has the answer.

    Attributes:
        kills: Processes that were killed.
        in_flight: Calls that were in flight at the kills.
        paid_twice: Calls that were paid for again.
        answered_and_lost: Those of them that had been answered.
        above_flight: Kills after which more was paid again than was in flight.
        lost: Rows without a result.
        effects_twice: Rows whose effect was executed with two keys.
    """

    kills: int = 0
    in_flight: int = 0
    paid_twice: int = 0
    answered_and_lost: int = 0
    above_flight: int = 0
    lost: int = 0
    effects_twice: int = 0

    def __add__(self, other: Figures) -> Figures:
        """Add the figures of another run."""
        names = [each.name for each in fields(self)]
        return Figures(*(getattr(self, n) + getattr(other, n) for n in names))

    @property
    def kept(self) -> bool:
        """Whether the promise was kept: nothing lost, and only calls in flight paid."""
        return not (self.lost or self.effects_twice or self.above_flight)


def judge(lines: Iterable[str], results: set[int], rows: int) -> Figures:
    """Return the figures of one run and its starts again.

    `results`: the rows whose result the last process printed.
    """
    sessions: list[list[list[str]]] = []
    keys: dict[str, set[str]] = {}
    for line in lines:
        kind, *words = line.split()
        if kind == "start":
            sessions.append([])
        elif kind == "effect":
            keys.setdefault(words[0], set()).add(words[1])
        else:
            sessions[-1].append([kind, *words])
    figures = Figures(
        kills=len(sessions) - 1,
        lost=rows - len(results & set(range(rows))),
        effects_twice=sum(len(found) > 1 for found in keys.values()),
    )
    paid: Counter[str] = Counter()
    before: tuple[set[str], set[str]] = (set(), set())
    for session in sessions:
        flight, ended = before
        begun = {row for kind, row in session if kind == "begin"}
        again = begun & paid.keys()
        figures += Figures(
            paid_twice=len(again),
            answered_and_lost=len(again & ended),
            above_flight=int(len(again) > len(flight)),
        )
        paid.update(begun)
        ends = {row for kind, row in session if kind == "end"}
        before = (begun - ends) | (flight - begun), ends | (ended - begun)
        if session is not sessions[-1]:
            figures += Figures(in_flight=len(begun - ends))
    return figures
