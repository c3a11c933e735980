"""The book of the booking services: what they really did.

One file for all processes. A request with a key is written once. A repeated request
with the same key gets the first answer.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

VARIABLE: Final = "TRAVEL_BOOK"
DEFAULT: Final = "out/travel_book.sqlite"
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS entries (
    number INTEGER PRIMARY KEY, key TEXT UNIQUE, trip TEXT, service TEXT, act TEXT
);
CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT);
CREATE TABLE IF NOT EXISTS tries (key TEXT PRIMARY KEY, count INTEGER);
"""


class Entry(NamedTuple):
    """A line of the book: whose trip it is, and which service did what."""

    trip: str
    service: str
    act: str


@dataclass(frozen=True, slots=True)
class Book:
    """The book in a file."""

    path: Path

    def tried(self, key: str) -> int:
        """Count one more try under a key; return how many there were."""
        counted = (
            "INSERT INTO tries VALUES (?, 1) "
            "ON CONFLICT (key) DO UPDATE SET count = count + 1 RETURNING count"
        )
        with closing(self._open()) as book, book:
            (count,) = book.execute(counted, (key,)).fetchone()
        return int(count)

    def answer(self, key: str, act: Callable[[sqlite3.Connection], str]) -> str:
        """Do something once under a key; return what was answered then."""
        with closing(self._open()) as book, book:
            book.execute("BEGIN IMMEDIATE")
            known = book.execute("SELECT answer FROM answers WHERE key = ?", (key,))
            if (row := known.fetchone()) is not None:
                return str(row[0])
            answer = act(book)
            book.execute("INSERT INTO answers VALUES (?, ?)", (key, answer))
            return answer

    def entries(self, trip: str) -> list[Entry]:
        """Return what happened about a trip, in its order."""
        asked = "SELECT trip, service, act FROM entries WHERE trip = ? ORDER BY number"
        with closing(self._open()) as book:
            return [Entry(*row) for row in book.execute(asked, (trip,))]

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        book = sqlite3.connect(self.path, timeout=30.0)
        book.executescript(_TABLES)
        return book


def the_book() -> Book:
    """Return the book that the environment names."""
    return Book(Path(os.environ.get(VARIABLE, DEFAULT)))


def write(book: sqlite3.Connection, key: str, entry: Entry) -> None:
    """Write a line."""
    book.execute(
        "INSERT INTO entries (key, trip, service, act) VALUES (?, ?, ?, ?)",
        (key, *entry),
    )


def has_entry(book: sqlite3.Connection, trip: str, service: str) -> bool:
    """Return whether the last entry of a service about a trip is a booking."""
    asked = (
        "SELECT act FROM entries WHERE trip = ? AND service = ? "
        "ORDER BY number DESC LIMIT 1"
    )
    row = book.execute(asked, (trip, service)).fetchone()
    return row is not None and row[0] == "booked"
