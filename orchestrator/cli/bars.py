"""Show a job's progress on stderr: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from orchestrator.cli.output import Output, console_of
from orchestrator.cli.times import format_clock
from orchestrator.waiting import ProgressSnapshot, Watcher
from piecework.model import ChunkStatus

#: Seconds between two plain lines, so that a log stays readable.
LINE_EVERY_S = 2.0


@contextmanager
def show_progress(out: Output, no_worker_hint: str) -> Iterator[Watcher]:
    """Yield a watcher that shows the job's progress."""
    if not out.stderr.isatty():
        yield Watcher(line_writer(out), remark=out.say, no_worker_hint=no_worker_hint)
        return
    with make_bar(out.stderr) as progress:
        task = progress.add_task("", total=None, details="", visible=False)

        def update(snapshot: ProgressSnapshot) -> None:
            progress.update(
                task,
                description=snapshot.job.ref.job,
                total=snapshot.job.chunks,
                completed=snapshot.ended,
                details=details(snapshot),
                visible=True,
            )

        yield Watcher(
            update, remark=progress.console.print, no_worker_hint=no_worker_hint
        )


def line_writer(
    out: Output, clock: Callable[[], float] = time.monotonic
) -> Callable[[ProgressSnapshot], None]:
    """Return a callback that writes a line if something changed, but not too often."""
    last: dict[str, Any] = {"line": "", "at": -LINE_EVERY_S}

    def write(snapshot: ProgressSnapshot) -> None:
        line = f"{snapshot.ended}/{snapshot.job.chunks} chunks {details(snapshot)}"
        now, ended = clock(), snapshot.job.status.ended
        if line != last["line"] and (ended or now - last["at"] >= LINE_EVERY_S):
            out.say(f"{snapshot.job.ref.job} {line}")
            last.update(line=line, at=now)

    return write


def details(snapshot: ProgressSnapshot) -> str:
    """Return the status, the counts and the estimated time left, as a line."""
    running = snapshot.counts[ChunkStatus.RUNNING]
    waiting = snapshot.counts[ChunkStatus.WAITING]
    words = [str(snapshot.job.status)]
    words += [f"{running} running"] if running else []
    words += [f"{waiting} waiting"] if waiting else []
    words += [f"{snapshot.dead} dead"] if snapshot.dead else []
    if snapshot.eta and not snapshot.job.status.ended:
        words.append(f"eta {format_clock(snapshot.eta)}")
    return "  ".join(words)


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
