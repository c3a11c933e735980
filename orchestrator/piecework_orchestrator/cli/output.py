"""Write a command's result to stdout in the requested format, and remarks to stderr.

A table is for people: short, relative times, cut to the terminal. The other formats are
for programs: complete, ISO times, and the same documents in all three.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from piecework_orchestrator.cli.options import Format
from piecework_orchestrator.json_text import encode_json, to_jsonable

Document = Mapping[str, Any]
Cell = Callable[[Document], object]

#: Width of an output that is not a terminal: nothing is cut for a pipe.
PIPE_WIDTH = 10_000
#: The narrowest width of a column that shrinks.
MIN_WIDTH = 8
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
    """

    title: str
    cell: Cell | str
    right: bool = False
    shrinks: bool = False
    folds: bool = False

    def text(self, document: Document) -> Text:
        """Return the cell of a document."""
        found = (
            document.get(self.cell)
            if isinstance(self.cell, str)
            else self.cell(document)
        )
        return cell_text(found)


#: Moves the cursor to the beginning of its line, and erases the line.
ERASED = "\r\x1b[2K"


@dataclass(slots=True)
class Output:
    """The streams for a command's result and for its remarks."""

    format: Format = Format.TABLE
    stdout: TextIO = field(default_factory=lambda: sys.stdout)
    stderr: TextIO = field(default_factory=lambda: sys.stderr)
    #: Whether a progress bar is in the line of the terminal where lines are written.
    beside_bar: bool = False

    @property
    def table(self) -> bool:
        """Whether the result is a table for people."""
        return self.format is Format.TABLE

    def rows(
        self, documents: Iterable[Document], columns: Sequence[Column], empty: str
    ) -> None:
        """Write documents as a list; for an empty list, write the remark `empty`."""
        found = list(documents)
        if self.format is not Format.TABLE:
            self.stdout.write(encode_all(found, self.format))
        elif found:
            self.draw(lambda console: print_table(console, found, columns))
        else:
            self.say(empty)

    def document(self, document: Document, view: Callable[[Console], None]) -> None:
        """Write one document; `view` draws it for people."""
        if self.format is Format.TABLE:
            self.draw(view)
        else:
            self.stdout.write(encode(document, self.format))

    def draw(self, view: Callable[[Console], None], *, on_stderr: bool = False) -> None:
        """Draw for people, on stdout, or on stderr if `on_stderr` is true.

        Trailing blanks of a line are removed, for pipes.
        """
        stream = self.stderr if on_stderr else self.stdout
        console = console_of(stream)
        with console.capture() as drawn:
            view(console)
        lines = drawn.get().splitlines()
        stream.write("".join(f"{line.rstrip()}\n" for line in lines))

    def line(self, document: Document) -> None:
        """Write one document as a line, and flush it for readers of a pipe.

        A progress bar is erased first; it draws itself again below the line.
        """
        if self.beside_bar:
            self.stdout.write(ERASED)
        self.stdout.write(encode(document, Format.JSONL))
        self.stdout.flush()

    def say(self, text: str) -> None:
        """Write a remark to stderr."""
        self.stderr.write(f"{clean(text)}\n")
        self.stderr.flush()


def console_of(stream: TextIO) -> Console:
    """Return a console without markup, as wide as the terminal."""
    width = None
    if not stream.isatty():
        columns = os.environ.get("COLUMNS", "")
        width = (int(columns) if columns.isdecimal() else 0) or PIPE_WIDTH
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def print_table(
    console: Console, documents: Iterable[Document], columns: Sequence[Column]
) -> None:
    """Print a table without lines, as `kubectl` and `docker` do.

    On a narrow terminal only columns that may shrink or fold do, because half an id is
    useless. If the table is still too wide, the terminal wraps it.
    """
    rows = [[column.text(document) for column in columns] for document in documents]
    natural = [
        max([len(column.title), *(row[index].cell_len for row in rows)])
        for index, column in enumerate(columns)
    ]
    widths = fit_widths(natural, columns, console.width)
    table = Table(box=None, padding=(0, GAP, 0, 0), header_style="bold", pad_edge=False)
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=not column.folds,
            overflow="fold" if column.folds else "ellipsis",
            width=width,
        )
    for row in rows:
        table.add_row(*row)
    needed = sum(widths) + GAP * len(widths)
    width, console.width = console.width, max(console.width, needed)
    console.print(table)
    console.width = width


def fit_widths(natural: list[int], columns: Sequence[Column], width: int) -> list[int]:
    """Return the width of each column; the widest shrinkable columns shrink first."""
    widths = list(natural)
    shrinkable = [
        i for i, column in enumerate(columns) if column.shrinks or column.folds
    ]
    while shrinkable and sum(widths) + GAP * (len(widths) - 1) > width:
        widest = max(shrinkable, key=widths.__getitem__)
        if widths[widest] <= MIN_WIDTH:
            break
        widths[widest] -= 1
    return widths


def facts(pairs: Iterable[tuple[str, object]]) -> Table:
    """Return a table of names and values, without empty values."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        if value not in (None, "", {}, []):
            table.add_row(name, cell_text(value))
    return table


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


def encode_all(documents: Sequence[Document], form: Format) -> str:
    """Return a list in a format for programs."""
    if form is Format.JSONL:
        return "".join(encode(document, form) for document in documents)
    return encode(documents, form)


def encode(value: object, form: Format) -> str:
    """Return a document in a format for programs."""
    if form is Format.YAML:
        import yaml

        plain = json.loads(json.dumps(value, default=to_jsonable))
        return str(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))
    return encode_json(value, indent=None if form is Format.JSONL else 2) + "\n"


View = Callable[[Console], None]


def message_text(row: Document) -> str:
    """Return the message of a stored error, and where it was raised."""
    message = str(row.get("message", ""))
    if not row.get("location"):
        return message
    return f"{row['exception']} at {row['location']}: {message}"


ERROR_HISTORY_COLUMNS = [
    Column("ATTEMPT", "attempt", right=True),
    Column("AT", lambda row: str(row["at"])[:19] + "Z"),
    Column("WORKER", "worker", shrinks=True),
    Column("CODE", "code"),
    Column("CLASS", "error_class"),
    Column("MESSAGE", message_text, folds=True),
]


def section(
    console: Console, title: str, rows: list[Document], columns: list[Column]
) -> None:
    """Draw a table under a title, if it has rows."""
    if rows:
        console.print(f"\n{title}", style="bold")
        print_table(console, rows, columns)


def pretty(payload: Any) -> str:
    """Return a payload as indented JSON."""
    return json.dumps(payload, ensure_ascii=False, indent=2)
