"""Show a job's progress on stderr: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from piecework.domain.states import JobStatus
from piecework.jobs import fan_out
from piecework.reading import Reading
from piecework_orchestrator.cli.output import Output, console_of
from piecework_orchestrator.cli.table import clean
from piecework_orchestrator.cli.views.jobs import job_view, without_certificate
from piecework_orchestrator.reading.job_documents import Document, job_document
from piecework_orchestrator.reading.times import format_clock
from piecework_orchestrator.reading.watch import (
    LINE_EVERY_S,
    ProgressSnapshot,
    Watcher,
    line_writer,
    watch,
)


@contextmanager
def show_progress(out: Output, no_worker_hint: str) -> Iterator[Watcher]:
    """Yield a watcher that shows the job's progress."""
    if not out.draws_bars:
        yield Watcher(
            line_writer(out.say), remark=out.say, no_worker_hint=no_worker_hint
        )
        return
    with make_bar(out.stderr) as progress:
        task = progress.add_task("", total=None, details="", visible=False)

        def update(snapshot: ProgressSnapshot) -> None:
            progress.update(
                task,
                description=snapshot.job.ref.job,
                total=snapshot.job.chunks,
                completed=snapshot.ended,
                details=snapshot.details,
                visible=True,
            )

        out.beside_bar = out.stdout.isatty()
        yield Watcher(
            update,
            remark=lambda text: progress.console.print(clean(text)),
            no_worker_hint=no_worker_hint,
        )
        out.beside_bar = False


def make_bar(stream: Any) -> Progress:
    """Return a progress bar that stays on screen when it ends."""
    console: Console = console_of(stream)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.completed:.0f}/{task.total}", markup=False),
        TextColumn("{task.fields[details]}", markup=False),
        console=console,
        redirect_stdout=False,
        redirect_stderr=False,
    )


# ── show the progress of a submit, a retry or a cancel on stderr ──────────────
#
# With an output format for programs no progress is shown.

#: Seconds between two updates of the bar, and between two plain lines.
BAR_EVERY_S = 0.1


@contextmanager
def show_steps(out: Output, total: int | None = None) -> Iterator[fan_out.Progress]:
    """Yield a callback that shows the progress of a submit, a retry or a cancel.

    A submit and a retry count first; a cancel has one step, and `total` chunks.
    """
    if not out.table:
        yield lambda *_: None
        return
    if not out.draws_bars:
        lines = StepProgress(Lines(out.say), LINE_EVERY_S, total=total)
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
        bar = Bar(progress, parts=2 if total is None else 1)
        shown = StepProgress(bar, BAR_EVERY_S, total=total)
        yield shown
        shown.close()


@dataclass(frozen=True, slots=True)
class Step:
    """The progress of one step.

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
    """Shows the steps of a command."""

    def now(self, step: Step) -> None:
        """Show a step in progress."""

    def ended(self, step: Step) -> None:
        """Show a step that has ended."""


class StepProgress:
    """Follows the steps of a command and shows them.

    A submit and a retry have up to four: read, written, counted, sent. A cancel has
    one step, swept, and knows the `total` before.
    """

    def __init__(
        self,
        display: StepDisplay,
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        total: int | None = None,
    ) -> None:
        self._display = display
        self._every_s = every_s
        self._clock = clock
        self._name = ""
        self._done = 0
        self._shown = -1
        self._total = total
        self._began = self._reported = clock()
        self._due = self._began + every_s

    def __call__(self, step: str, done: int) -> None:
        """Record how many chunks a step has completed."""
        now = self._clock()
        if step != self._name:
            self.close()
            self._total = self._done if self._name == "read" else self._total
            # A step begins when the step before it ends, not at its first report.
            self._name, self._began, self._shown = step, self._reported, -1
        self._done, self._reported = done, now
        # A step that waits is shown once, so that a log stays readable.
        if now >= self._due and done != self._shown:
            self._due, self._shown = now + self._every_s, done
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
        chunks = "chunk" if step.done == 1 else "chunks"
        self.say(f"{step.name} {step.done:,} {chunks}")


class Bar:
    """One bar for all steps: chunks are read, then written, then sent."""

    def __init__(self, progress: Progress, parts: int = 2) -> None:
        self._progress = progress
        self._parts = parts
        self._task = progress.add_task("", total=None, details="")

    def now(self, step: Step) -> None:
        """Update the bar."""
        total = None if step.total is None else self._parts * step.total
        self._progress.update(
            self._task,
            description=step.name,
            details=str(step),
            total=total,
            completed=0 if total is None else total - step.ahead,
        )

    ended = now


# ── wait for a job ────────────────────────────────────────────────────────────

OK, FAILED, CANCELLED, DEAD_LETTERS_LEFT = 0, 1, 4, 5


async def wait_for(
    rt: Reading,
    out: Output,
    job: str,
    *,
    module: str,
    limit_s: float | None,
    told: Document | None = None,
) -> int:
    """Watch a job until it ends, and show it; return the exit code.

    `told`: what a submit adds to the document.

    Raises:
        WaitTimeoutError: `cli.wait.timeout`.
    """
    hint = (
        "no worker seems to be running; start one with "
        f"`piecework worker --pipelines {module}`"
    )
    try:
        with show_progress(out, hint) as watcher:
            ended = await watch(rt, job, watcher, limit_s)
    except asyncio.CancelledError:
        out.say(f"the job continues; next: piecework jobs watch {job}")
        raise
    document = {**await job_document(rt, ended), **(told or {})}
    out.document(without_certificate(document), job_view(document, rt.clock()))
    return exit_code(document)


def exit_code(job: Document) -> int:
    """Return the exit code for the status of an ended job."""
    match job["status"]:
        case JobStatus.SUCCEEDED:
            return OK
        case JobStatus.CANCELLED:
            return CANCELLED
        case JobStatus.PARTIAL if job["dead_letters"]:
            return DEAD_LETTERS_LEFT
        case _:
            return FAILED
