"""Print the story: with live bars on a terminal, as plain lines elsewhere."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import Protocol, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from orchestrator.demo.progress import Progress

LABEL_WIDTH = 9
BAR_WIDTH = 24
#: Seconds between two lines of progress where there is no terminal.
PLAIN_EVERY_S = 2.0
STYLES = {
    "kill": "bold red",
    "dead": "red",
    "takeover": "yellow",
    "failed": "bold red",
    "counted": "green",
}


class Screen(Protocol):
    """The output of the demo."""

    def print_line(self, label: str, text: str) -> None:
        """Print a line with a label."""

    def show_progress(self, progress: Progress) -> None:
        """Show the progress of the job."""

    def hide_progress(self) -> None:
        """Remove the bars."""

    def print_figures(self, line: str) -> None:
        """Print a line unchanged, for people and scripts."""


def open_screen(stream: TextIO) -> Screen:
    """Return the screen for a terminal or for plain output."""
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        return Terminal(Console(file=stream, highlight=False))
    return Plain(stream)


@dataclass(slots=True)
class Plain:
    """One line for each event, and a line of progress every two seconds."""

    stream: TextIO
    _shown_at: float = float("-inf")

    def print_line(self, label: str, text: str) -> None:
        """Write a line and flush it, so that readers of the file see it."""
        encoding = self.stream.encoding or "utf-8"
        line = f" {label:<{LABEL_WIDTH}}{text}".rstrip()
        self.stream.write(line.encode(encoding, "replace").decode(encoding) + "\n")
        self.stream.flush()

    def show_progress(self, progress: Progress) -> None:
        """Write a line of progress if the last one is old enough."""
        now = asyncio.get_running_loop().time()
        if now - self._shown_at >= PLAIN_EVERY_S:
            self._shown_at = now
            self.print_line("progress", progress.format_line())

    def hide_progress(self) -> None:
        """Do nothing: there are no bars."""

    def print_figures(self, line: str) -> None:
        """Write the line."""
        self.stream.write(f"{line}\n")
        self.stream.flush()


@dataclass(slots=True)
class Terminal:
    """Lines scroll above the live bars."""

    console: Console
    _live: Live | None = field(default=None)

    def print_line(self, label: str, text: str) -> None:
        """Print a line, its second column wrapped under itself."""
        self.console.print(columns((label, Text(text, STYLES.get(label, "")))))

    def show_progress(self, progress: Progress) -> None:
        """Draw the bars in place of the previous ones."""
        if self._live is None:
            self._live = Live(
                console=self.console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        self._live.update(bars(progress), refresh=True)

    def hide_progress(self) -> None:
        """Remove the bars and restore the cursor."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def print_figures(self, line: str) -> None:
        """Print the line without a line break."""
        self.console.print(Text(line, "bold"), soft_wrap=True)


def bars(progress: Progress) -> RenderableType:
    """Return the live display: chunks, calls, figures and the workers' chunks."""
    chunks, calls = Table.grid(padding=(0, 1)), Table.grid(padding=(0, 1))
    chunks.add_row(
        bar(progress.chunks_ended, progress.chunks),
        f"{progress.chunks_ended}/{progress.chunks}",
    )
    calls.add_row(
        bar(progress.calls_done, progress.calls_expected),
        f"{progress.calls_done}/{progress.calls_expected}",
    )
    rows: list[tuple[str, RenderableType]] = [
        ("chunks", chunks),
        ("calls", calls),
        ("", Text(progress.format_figures(), overflow="ellipsis", no_wrap=True)),
    ]
    rows += [
        (name, Text(doing, "dim", overflow="ellipsis", no_wrap=True))
        for name, doing in progress.workers.items()
    ]
    return Group(Text(), columns(*rows))


def bar(done: int, total: int) -> ProgressBar:
    """Return a progress bar."""
    return ProgressBar(total=total, completed=done, width=BAR_WIDTH)


def columns(*rows: tuple[str, RenderableType]) -> Table:
    """Return a table of rows with labels of equal width."""
    table = Table.grid(padding=(0, 0, 0, 1))
    table.add_column(width=LABEL_WIDTH - 1, style="bold cyan", no_wrap=True)
    table.add_column(ratio=1)
    for label, content in rows:
        table.add_row(label, content)
    return table
