"""Read a ledger: the tasks that were started, done and paid for, with times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Facts:
    """The facts read so far; times are nanoseconds of one clock.

    Attributes:
        done_at: The first completion of each task.
        paid: The number of payments of each call.
    """

    ready: int = 0
    starts: Counter[str] = field(default_factory=Counter)
    dones: Counter[str] = field(default_factory=Counter)
    done_at: dict[str, int] = field(default_factory=dict)
    started_at: list[int] = field(default_factory=list)
    paid: Counter[tuple[str, str]] = field(default_factory=Counter)
    failed: int = 0
    first_call: int = 0
    last_paid: int = 0

    def read(self, lines: Iterable[str]) -> None:
        """Read further lines."""
        for line in lines:
            self.read_line(line.split())

    def read_line(self, words: list[str]) -> None:
        """Read one line."""
        match words:
            case ["START", task, at, _]:
                self.starts[task] += 1
                self.started_at.append(int(at))
            case ["DONE", task, at, _]:
                self.dones[task] += 1
                self.done_at.setdefault(task, int(at))
            case ["CALL", chunk, number, "OK", at]:
                self.paid[chunk, number] += 1
                self.first_call = self.first_call or int(at)
                self.last_paid = int(at)
            case ["CALL", *_]:
                self.failed += 1
            case ["READY", *_]:
                self.ready += 1

    @property
    def first_start(self) -> int:
        """The start of the first task; 0 if no task has started."""
        return self.started_at[0] if self.started_at else 0

    @property
    def last_done(self) -> int:
        """The first completion of the last task."""
        return max(self.done_at.values(), default=0)

    @property
    def repeated(self) -> int:
        """The number of repeated completions."""
        return sum(self.dones.values()) - len(self.dones)

    @property
    def started_again(self) -> int:
        """The number of repeated starts."""
        return sum(self.starts.values()) - len(self.starts)

    @property
    def paid_twice(self) -> int:
        """The number of calls that were paid for more than once."""
        return sum(self.paid.values()) - len(self.paid)


@dataclass(slots=True)
class LedgerReader:
    """Reads a ledger as it grows, each line once."""

    path: Path
    facts: Facts = field(default_factory=Facts)
    _at: int = 0
    _rest: str = ""

    def poll(self) -> Facts:
        """Read the new lines, and return all facts."""
        if self.path.exists():
            with self.path.open(encoding="ascii") as file:
                file.seek(self._at)
                new = file.read()
                self._at = file.tell()
            *lines, self._rest = (self._rest + new).split("\n")
            self.facts.read(lines)
        return self.facts
