"""Write a command's result to stdout in the requested format, and remarks to stderr.

A table is for people: short, relative times, cut to the terminal. The other formats are
for programs: complete, ISO times, and the same documents in all three.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

from piecework_orchestrator.cli.global_options import QUIET, VERBOSE
from piecework_orchestrator.cli.options import Format
from piecework_orchestrator.cli.programs import RUN_LINE, STATE_FILE, naming_file
from piecework_orchestrator.cli.table import (
    Column,
    Document,
    cell_text,
    clean,
    print_table,
)
from piecework_orchestrator.results.json_text import encode_json, to_jsonable

#: Width of an output that is not a terminal: nothing is cut for a pipe.
PIPE_WIDTH = 10_000


#: What a document for programs calls the command that comes next.
NEXT = "next"

#: Moves the cursor to the beginning of its line, and erases the line.
ERASED = "\r\x1b[2K"


@dataclass(slots=True)
class Output:
    """The streams for a command's result and for its remarks."""

    format: Format = Format.TABLE
    # A stream of the process that is closed is None.
    stdout: TextIO = field(default_factory=lambda: sys.stdout or StringIO())
    stderr: TextIO = field(default_factory=lambda: sys.stderr or StringIO())
    #: As `PIECEWORK_VERBOSITY`: `quiet`, `verbose`, or empty.
    verbosity: str = ""
    #: The format of an error; None: as the result.
    errors: Format | None = None
    #: Whether a progress bar is in the line of the terminal where lines are written.
    beside_bar: bool = False
    #: The state file of a run that the command works on: the commands that it names
    #: need it, too. Empty: it works on a deployment.
    state: str = field(default_factory=lambda: os.environ.get(STATE_FILE, ""))
    #: What starts this run again, if it has no process; else empty.
    run_line: str = field(default_factory=lambda: os.environ.get(RUN_LINE, ""))

    @property
    def table(self) -> bool:
        """Whether the result is a table for people."""
        return self.format is Format.TABLE

    @property
    def quiet(self) -> bool:
        """Whether only results and errors are written."""
        return self.verbosity == QUIET

    @property
    def verbose(self) -> bool:
        """Whether details are written, too."""
        return self.verbosity == VERBOSE

    @property
    def draws_bars(self) -> bool:
        """Whether progress is drawn as a bar on a terminal."""
        return self.stderr.isatty() and not self.quiet

    def rows(
        self, documents: Iterable[Document], columns: Sequence[Column], empty: str
    ) -> None:
        """Write documents as a list; for an empty list, write the remark `empty`."""
        found = list(documents)
        if self.format is not Format.TABLE:
            named = [self.named(each) for each in found]
            self.stdout.write(encode_all(named, self.format))
        elif found:
            shown = [each for each in columns if self.verbose or not each.detail]
            dropped: list[str] = []
            self.draw(
                lambda console: dropped.extend(print_table(console, found, shown))
            )
            if dropped:
                names = ", ".join(dropped)
                self.say(f"too narrow for: {names}; -o json shows all")
        else:
            self.say(empty)

    def document(self, document: Document, view: Callable[[Console], None]) -> None:
        """Write one document; `view` draws it for people."""
        if self.format is Format.TABLE:
            self.draw(view)
        else:
            self.stdout.write(encode(self.named(document), self.format))

    def named(self, document: Document) -> Document:
        """Return a document whose next command names the state file."""
        if not self.state or not isinstance(document.get(NEXT), str):
            return document
        return {**document, NEXT: self.to_copy(document[NEXT])}

    def to_copy(self, text: str) -> str:
        """Return a text whose commands work as they are: on a state file, too."""
        return naming_file(text, self.state, self.run_line)

    def draw(
        self, view: Callable[[Console], object], *, on_stderr: bool = False
    ) -> None:
        """Draw for people, on stdout, or on stderr if `on_stderr` is true.

        Trailing blanks of a line are removed, for pipes.
        """
        stream = self.stderr if on_stderr else self.stdout
        console = console_of(stream)
        with console.capture() as drawn:
            view(console)
        lines = self.to_copy(drawn.get()).splitlines()
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
        """Write a remark to stderr, except with `-q`."""
        if not self.quiet:
            self.tell(text)

    def tell(self, text: str) -> None:
        """Write to stderr what an operator must know, also with `-q`.

        On a terminal it is wrapped between words. A command stays on one line, to be
        copied.
        """
        text = self.to_copy(clean(text))
        if self.stderr.isatty() and not text.startswith("next: "):
            text = fill(text, console_of(self.stderr).width)
        self.stderr.write(f"{text}\n")
        self.stderr.flush()

    def error(self, code: str, message: str, next_step: str = "") -> None:
        """Write an error and the next step to stderr; for programs as a document."""
        form = self.format if self.errors is None else self.errors
        if form is not Format.TABLE:
            step = self.to_copy(next_step)
            found = {"code": code, "message": message, "next_step": step}
            self.stderr.write(encode({"error": found}, form))
            self.stderr.flush()
            return
        self.tell(f"error {code}: {message}")
        if next_step:
            self.tell(f"next: {next_step}")


def console_of(stream: TextIO) -> Console:
    """Return a console without markup, as wide as the terminal."""
    width = None
    if not stream.isatty():
        columns = os.environ.get("COLUMNS", "")
        width = (int(columns) if columns.isdecimal() else 0) or PIPE_WIDTH
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def fill(text: str, width: int) -> str:
    """Wrap each line of a text between words."""
    return "\n".join(
        "\n".join(
            textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
        )
        for line in text.splitlines()
    )


def facts(pairs: Iterable[tuple[str, object]]) -> Table:
    """Return a table of names and values, without empty values."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        if value not in (None, "", {}, []):
            table.add_row(name, cell_text(value))
    return table


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
    Column("AT", lambda row: str(row["at"])[:19] + "Z", drops=2),
    Column("WORKER", "worker", shrinks=True, drops=1),
    Column("CODE", "code"),
    Column("CLASS", "error_class", drops=3),
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
    return encode_json(payload, indent=2)


def payload_text(payload: Any) -> str:
    """Return a payload as text whose line breaks are not escaped."""
    if not isinstance(payload, dict):
        return clean(pretty(payload))
    lines = []
    for name, value in payload.items():
        if isinstance(value, str) and "\n" in value:
            lines += [f"{name}:", *(f"  {line}" for line in value.splitlines())]
        elif isinstance(value, str):
            lines.append(f"{name}: {value}")
        else:
            lines.append(f"{name}: {encode_json(value)}")
    return clean("\n".join(lines))
