"""Show the story: live bars below it on a terminal, plain lines elsewhere."""

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
    """Where the story is told."""

    def say(self, label: str, text: str) -> None:
        """Tell that something happened."""

    def show(self, progress: Progress) -> None:
        """Show how far the job is."""

    def rest(self) -> None:
        """Take the bars away."""

    def figures(self, line: str) -> None:
        """Print a line as it is, for people and scripts alike."""


def screen_on(stream: TextIO) -> Screen:
    """Return the right screen for where the output goes."""
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        return Terminal(Console(file=stream, highlight=False))
    return Plain(stream)


@dataclass(slots=True)
class Plain:
    """One line for each thing that happens, and one of progress now and then."""

    stream: TextIO
    _shown_at: float = float("-inf")

    def say(self, label: str, text: str) -> None:
        """Write a line at once: somebody may follow the file."""
        encoding = self.stream.encoding or "utf-8"
        said = f" {label:<{LABEL_WIDTH}}{text}".rstrip()
        self.stream.write(said.encode(encoding, "replace").decode(encoding) + "\n")
        self.stream.flush()

    def show(self, progress: Progress) -> None:
        """Write a line, if the last one is old enough."""
        now = asyncio.get_running_loop().time()
        if now - self._shown_at >= PLAIN_EVERY_S:
            self._shown_at = now
            self.say("progress", progress.line())

    def rest(self) -> None:
        """There is nothing to take away."""

    def figures(self, line: str) -> None:
        """Write the line."""
        self.stream.write(f"{line}\n")
        self.stream.flush()


@dataclass(slots=True)
class Terminal:
    """The story scrolls; below it, the bars stay."""

    console: Console
    _live: Live | None = field(default=None)

    def say(self, label: str, text: str) -> None:
        """Print a line, its second column wrapped under itself."""
        self.console.print(columns((label, Text(text, STYLES.get(label, "")))))

    def show(self, progress: Progress) -> None:
        """Draw the bars, in place of the last ones."""
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

    def rest(self) -> None:
        """Take the bars away and give the cursor back."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def figures(self, line: str) -> None:
        """Print the line; the terminal may break it, we do not."""
        self.console.print(Text(line, "bold"), soft_wrap=True)


def bars(progress: Progress) -> RenderableType:
    """Return the live part: chunks, calls, figures, and what each worker does."""
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
        ("", Text(progress.figures(), overflow="ellipsis", no_wrap=True)),
    ]
    rows += [
        (name, Text(doing, "dim", overflow="ellipsis", no_wrap=True))
        for name, doing in progress.workers.items()
    ]
    return Group(Text(), columns(*rows))


def bar(done: int, total: int) -> ProgressBar:
    """Return a bar."""
    return ProgressBar(total=total, completed=done, width=BAR_WIDTH)


def columns(*rows: tuple[str, RenderableType]) -> Table:
    """Return rows with labels of one width before them."""
    table = Table.grid(padding=(0, 0, 0, 1))
    table.add_column(width=LABEL_WIDTH - 1, style="bold cyan", no_wrap=True)
    table.add_column(ratio=1)
    for label, content in rows:
        table.add_row(label, content)
    return table
