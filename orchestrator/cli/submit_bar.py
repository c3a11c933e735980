"""Show on stderr how far a submit is: one bar on a terminal, plain lines elsewhere.

What a program reads has none of it: not even beside its result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from rich.progress import BarColumn, Progress, TextColumn

from orchestrator.cli.output import Output, console_of
from orchestrator.cli.times import clock_time
from piecework import fanout

#: Seconds between two changes of the bar, and between two plain lines: a log is read
#: later, and by people.
BAR_EVERY_S = 0.1
LINE_EVERY_S = 2.0


@contextmanager
def submitting(out: Output) -> Iterator[fanout.Progress]:
    """Show a submit as it gets on."""
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
        TextColumn("{task.fields[said]}", markup=False),
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
    """How far a step of a submit is.

    Attributes:
        total: How many chunks there are; None: they are still being counted.
        ahead: Chunks that are left of this step and of those behind it.
        rate: Chunks a second so far; 0: no telling.
    """

    name: str
    done: int
    total: int | None
    ahead: int
    rate: float

    def __str__(self) -> str:
        """Return it in words: counts, rate, time that is left."""
        of = "" if self.total is None else f"/{self.total:,}"
        words = [f"{self.done:,}{of} chunks"]
        words += [f"{self.rate:,.0f}/s"] if self.rate else []
        if self.rate and self.ahead:
            words.append(f"{clock_time(self.ahead / self.rate)} left")
        return ", ".join(words)


class Shown(Protocol):
    """Where a step is shown."""

    def now(self, step: Step) -> None:
        """Show a step that is under way."""

    def ended(self, step: Step) -> None:
        """Show a step that is over."""


class SubmitProgress:
    """Follows a submit, read, written, counted, sent, and shows each step at times."""

    def __init__(
        self, shown: Shown, every_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._shown = shown
        self._every_s = every_s
        self._clock = clock
        self._name = ""
        self._done = 0
        self._total: int | None = None
        self._began = self._told = clock()
        self._due = self._began + every_s

    def __call__(self, step: str, done: int) -> None:
        """Note how many chunks a step has done."""
        now = self._clock()
        if step != self._name:
            self.close()
            self._total = self._done if self._name == "read" else self._total
            # It began when the one before it was over, not when it is first told of.
            self._name, self._began = step, self._told
        self._done, self._told = done, now
        if now >= self._due:
            self._due = now + self._every_s
            self._shown.now(self._step(now))

    def close(self) -> None:
        """Show the last of a step."""
        if self._name:
            self._shown.ended(self._step(self._clock()))

    def _step(self, now: float) -> Step:
        seconds = now - self._began
        rate = self._done / seconds if seconds > 0 else 0.0
        total = self._total or 0
        if self._name == "counted":  # what that takes says nothing of what is left
            return Step(self._name, self._done, self._total, total, 0.0)
        # What is written is still to be sent, at about the same rate.
        ahead = total - self._done + (total if self._name == "written" else 0)
        return Step(self._name, self._done, self._total, max(0, ahead), rate)


@dataclass(frozen=True, slots=True)
class Lines:
    """A line now and then, and one at the end of each step."""

    say: Callable[[str], None]

    def now(self, step: Step) -> None:
        """Say how far a step is."""
        self.say(f"{step.name} {step}")

    def ended(self, step: Step) -> None:
        """Say what a step came to."""
        self.say(f"{step.name} {step.done:,} chunks")


class Bar:
    """One bar for all steps: what was read is written, then sent."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, said="")

    def now(self, step: Step) -> None:
        """Move the bar."""
        total = None if step.total is None else 2 * step.total
        self._progress.update(
            self._task,
            description=step.name,
            said=str(step),
            total=total,
            completed=0 if total is None else total - step.ahead,
        )

    ended = now
