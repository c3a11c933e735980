"""Lay out a table of documents for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

Document = Mapping[str, Any]

Cell = Callable[[Document], object]

#: The narrowest width of a column that shrinks.
MIN_WIDTH = 8

#: The longest word for which a column that folds stays wide.
MAX_WORD = 60

#: Spaces between columns.
GAP = 2

#: The colour of a status; other words are not coloured.
STYLES = {
    "SUCCEEDED": "green",
    "DONE": "green",
    "ok": "green",
    "RUNNING": "cyan",
    "FINALIZING": "cyan",
    "WAITING": "yellow",
    "PARTIAL": "yellow",
    "UNKNOWN": "yellow",
    "DEAD": "red",
    "FAILED": "red",
    "OPEN": "red",
    "fails": "red",
    "transient": "yellow",
    "state": "yellow",
    "semantic": "magenta",
    "policy": "magenta",
    "permanent": "red",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        cell: The key of the document to show, or a function of the document.
        shrinks: Whether its text is cut by an ellipsis if the terminal is narrow.
        folds: Whether its text continues on the next line instead.
        drops: Its turn to be left out of a table that is too wide, the greatest
            first; 0: never.
        detail: Whether only `-v` shows it.
    """

    title: str
    cell: Cell | str
    right: bool = False
    shrinks: bool = False
    folds: bool = False
    drops: int = 0
    detail: bool = False

    def text(self, document: Document) -> Text:
        """Return the cell of a document."""
        found = (
            document.get(self.cell)
            if isinstance(self.cell, str)
            else self.cell(document)
        )
        return cell_text(found)


def print_table(
    console: Console, documents: Iterable[Document], columns: Sequence[Column]
) -> list[str]:
    """Print a table without lines, as `kubectl` and `docker` do.

    Return the titles of the columns for which the terminal is too narrow.
    """
    rows = [[column.text(document) for column in columns] for document in documents]
    spans = [
        Span.of(column, [row[index] for row in rows])
        for index, column in enumerate(columns)
    ]
    widths = fit_widths(spans, console.width)
    # Without `pad_edge`, only rich before 15 counts the gap of the last column.
    table = Table(box=None, padding=(0, GAP, 0, 0), header_style="bold", pad_edge=True)
    for index, width in widths.items():
        column = columns[index]
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=not column.folds,
            overflow="fold" if column.folds else "ellipsis",
            width=width,
        )
    for row in rows:
        table.add_row(*(row[index] for index in widths))
    needed = sum(widths.values()) + GAP * len(widths)
    width, console.width = console.width, max(console.width, needed)
    console.print(table)
    console.width = width
    return [each.title for at, each in enumerate(columns) if at not in widths]


class Span(NamedTuple):
    """The widths that a column may have, and its turn to be dropped; 0: never."""

    natural: int
    least: int
    drops: int

    @classmethod
    def of(cls, column: Column, cells: Sequence[Text]) -> Span:
        """Return the span of a column with these cells.

        A folding column is at least as wide as its longest word, up to a limit.
        """
        natural = max([len(column.title), *(cell.cell_len for cell in cells)])
        least = natural
        if column.shrinks:
            least = max(MIN_WIDTH, len(column.title))
        elif column.folds:
            words = [len(word) for cell in cells for word in cell.plain.split()]
            least = min(MAX_WORD, max([MIN_WIDTH, len(column.title), *words]))
        return cls(natural, min(least, natural), column.drops)


def fit_widths(spans: Sequence[Span], width: int) -> dict[int, int]:
    """Return the width of each column that is shown, by its place.

    The widest columns that may be narrower are made narrower first. Then columns are
    dropped. An id of 64 characters may still leave no room: then it is cut.
    """
    shown = dict(enumerate(spans))

    def room(taken: Iterable[int]) -> int:
        """Return how much wider the terminal is than columns of these widths."""
        widths = list(taken)
        return width - sum(widths) - GAP * (len(widths) - 1)

    while room(span.least for span in shown.values()) < 0:
        last = max(shown, key=lambda at: (shown[at].drops, at))
        if not shown[last].drops:
            break
        del shown[last]
    widths = {at: span.natural for at, span in shown.items()}
    least = {at: span.least for at, span in shown.items()}
    for floor in (least, dict.fromkeys(shown, MIN_WIDTH)):
        while room(widths.values()) < 0:
            wide = {at: found for at, found in widths.items() if found > floor[at]}
            if not wide:
                break
            widths[max(wide, key=wide.__getitem__)] -= 1
    return widths


def cell_text(value: object) -> Text:
    """Return a value as a cell, without markup and without control characters."""
    if value is None or value == "":
        return Text("-", style="dim")
    text = clean(str(value))
    return Text(text, style=STYLES.get(text.split(" ", 1)[0], ""))


def clean(text: str) -> str:
    """Replace control characters, because texts may come from an attacker."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c == "\n" else "\N{MIDDLE DOT}" for c in text
    )
