"""Show on stderr how far something is: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from orchestrator.cli.output import Output, console_of
from orchestrator.cli.times import clock_time
from orchestrator.waiting import Look, Watcher
from piecework.model import ChunkStatus

#: Seconds between two plain lines: a log is read later, and by people.
LINE_EVERY_S = 2.0


@contextmanager
def watching(out: Output, hint: str) -> Iterator[Watcher]:
    """Show a job as it gets on."""
    if not out.stderr.isatty():
        yield Watcher(told=plain_looks(out), remark=out.say, hint=hint)
        return
    with bar(out.stderr) as progress:
        task = progress.add_task("", total=None, said="", visible=False)

        def told(look: Look) -> None:
            progress.update(
                task,
                description=look.job.ref.job,
                total=look.job.chunks,
                completed=look.settled,
                said=details(look),
                visible=True,
            )

        yield Watcher(told=told, remark=progress.console.print, hint=hint)


def plain_looks(
    out: Output, clock: Callable[[], float] = time.monotonic
) -> Callable[[Look], None]:
    """Return what writes a line when something changed, and not too often."""
    last: dict[str, Any] = {"line": "", "at": -LINE_EVERY_S}

    def told(look: Look) -> None:
        line = f"{look.settled}/{look.job.chunks} chunks {details(look)}"
        now, ended = clock(), look.job.status.ended
        if line != last["line"] and (ended or now - last["at"] >= LINE_EVERY_S):
            out.say(f"{look.job.ref.job} {line}")
            last.update(line=line, at=now)

    return told


def details(look: Look) -> str:
    """Return what stands behind the bar."""
    running = look.counts[ChunkStatus.RUNNING]
    waiting = look.counts[ChunkStatus.WAITING]
    words = [str(look.job.status)]
    words += [f"{running} running"] if running else []
    words += [f"{waiting} waiting"] if waiting else []
    words += [f"{look.dead} dead"] if look.dead else []
    if look.eta and not look.job.status.ended:
        words.append(f"eta {clock_time(look.eta)}")
    return "  ".join(words)


def bar(stream: Any) -> Progress:
    """Return a bar that leaves its last state behind."""
    console: Console = console_of(stream)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.completed:.0f}/{task.total}", markup=False),
        TextColumn("{task.fields[said]}", markup=False),
        console=console,
        redirect_stdout=False,
        redirect_stderr=False,
    )
