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


# ── progress of the job, and the estimate for the rest ────────────────────────


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress at one moment.

    Attributes:
        calls_made: Calls of the model, including failed attempts.
        calls_done: Calls of model and add-in with a final answer.
        calls_expected: The final value of `calls_done` if every chunk succeeds.
        elapsed_s: Seconds since the submit.
        workers: The chunks of each worker, by its name.
    """

    chunks_ended: int
    chunks: int
    calls_made: int
    calls_done: int
    calls_expected: int
    retries: int
    rate_limited: int
    p95_s: float | None
    elapsed_s: float
    workers: dict[str, str]

    @property
    def rate(self) -> float:
        """Calls per second so far."""
        return self.calls_done / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def eta_s(self) -> float | None:
        """Return the estimated seconds for the rest, or None if the rate is 0."""
        if not self.rate:
            return None
        return (self.calls_expected - self.calls_done) / self.rate

    def format_figures(self) -> str:
        """Return the figures below the bars."""
        eta = "-:--" if self.eta_s is None else format_clock(self.eta_s)
        p95 = "-" if self.p95_s is None else f"{self.p95_s:.2f} s"
        return (
            f"eta {eta}  {self.rate:.0f}/s  made {self.calls_made}"
            f"  retries {self.retries}  429s {self.rate_limited}  p95 {p95}"
        )

    def format_line(self) -> str:
        """Return the progress as one line, for output without a terminal."""
        chunks = f"{self.chunks_ended}/{self.chunks}"
        return (
            f"chunks {chunks}  calls {self.calls_done}/{self.calls_expected}"
            f"  {self.format_figures()}"
        )


def format_clock(seconds: float) -> str:
    """Return seconds as 0:07."""
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d}"
