"""Show a submit's progress on stderr: one bar on a terminal, plain lines elsewhere.

With an output format for programs no progress is shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from rich.progress import BarColumn, Progress, TextColumn

from orchestrator.cli.output import Output, console_of
from orchestrator.cli.times import format_clock
from piecework import fanout

#: Seconds between two updates of the bar, and between two plain lines.
BAR_EVERY_S = 0.1
LINE_EVERY_S = 2.0


@contextmanager
def show_submit(out: Output) -> Iterator[fanout.Progress]:
    """Yield a callback that shows the progress of a submit."""
    if not out.table:
        yield lambda *_: None
        return
    if not out.stderr.isatty():
        lines = SubmitProgress(Lines(out.say), LINE_EVERY_S)
        yield lines
        lines.close()
        return
    columns = [
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[details]}", markup=False),
    ]
    with Progress(
        *columns,
        console=console_of(out.stderr),
        redirect_stdout=False,
        redirect_stderr=False,
    ) as progress:
        shown = SubmitProgress(Bar(progress), BAR_EVERY_S)
        yield shown
        shown.close()


@dataclass(frozen=True, slots=True)
class Step:
    """The progress of a step of a submit.

    Attributes:
        total: The number of chunks; None: they are still being counted.
        ahead: Chunks left in this step and in the later steps.
        rate: Chunks a second so far; 0: unknown.
    """

    name: str
    done: int
    total: int | None
    ahead: int
    rate: float

    def __str__(self) -> str:
        """Return the counts, the rate and the time left as text."""
        of = "" if self.total is None else f"/{self.total:,}"
        words = [f"{self.done:,}{of} chunks"]
        words += [f"{self.rate:,.0f}/s"] if self.rate else []
        if self.rate and self.ahead:
            words.append(f"{format_clock(self.ahead / self.rate)} left")
        return ", ".join(words)


class StepDisplay(Protocol):
    """Shows the steps of a submit."""

    def now(self, step: Step) -> None:
        """Show a step in progress."""

    def ended(self, step: Step) -> None:
        """Show a step that has ended."""


class SubmitProgress:
    """Follows the steps of a submit (read, written, counted, sent) and shows them."""

    def __init__(
        self,
        display: StepDisplay,
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._display = display
        self._every_s = every_s
        self._clock = clock
        self._name = ""
        self._done = 0
        self._total: int | None = None
        self._began = self._reported = clock()
        self._due = self._began + every_s

    def __call__(self, step: str, done: int) -> None:
        """Record how many chunks a step has completed."""
        now = self._clock()
        if step != self._name:
            self.close()
            self._total = self._done if self._name == "read" else self._total
            # A step begins when the step before it ends, not at its first report.
            self._name, self._began = step, self._reported
        self._done, self._reported = done, now
        if now >= self._due:
            self._due = now + self._every_s
            self._display.now(self._step(now))

    def close(self) -> None:
        """Show the end of the current step."""
        if self._name:
            self._display.ended(self._step(self._clock()))

    def _step(self, now: float) -> Step:
        seconds = now - self._began
        rate = self._done / seconds if seconds > 0 else 0.0
        total = self._total or 0
        if self._name == "counted":  # its rate does not predict the later steps
            return Step(self._name, self._done, self._total, total, 0.0)
        # Written chunks are sent later, at about the same rate.
        ahead = total - self._done + (total if self._name == "written" else 0)
        return Step(self._name, self._done, self._total, max(0, ahead), rate)


@dataclass(frozen=True, slots=True)
class Lines:
    """Writes a line at intervals, and one at the end of each step."""

    say: Callable[[str], None]

    def now(self, step: Step) -> None:
        """Write the progress of a step."""
        self.say(f"{step.name} {step}")

    def ended(self, step: Step) -> None:
        """Write the result of a step."""
        self.say(f"{step.name} {step.done:,} chunks")


class Bar:
    """One bar for all steps: chunks are read, then written, then sent."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, details="")

    def now(self, step: Step) -> None:
        """Update the bar."""
        total = None if step.total is None else 2 * step.total
        self._progress.update(
            self._task,
            description=step.name,
            details=str(step),
            total=total,
            completed=0 if total is None else total - step.ahead,
        )

    ended = now
