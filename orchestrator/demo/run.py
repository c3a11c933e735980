"""Run the demo and always clean up."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from orchestrator.demo.failure import DemoError
from orchestrator.demo.machine import running
from orchestrator.demo.screen import Screen, open_screen
from orchestrator.demo.story import run_story
from orchestrator.demo.verdict import Counts, failed_checks, summary_line
from orchestrator.embedded.endpoint import refuse_remote
from piecework.errors import UsageError

INTERRUPTED = 130


async def run_demo(
    *,
    seed: int = 42,
    keep: bool = False,
    out: Path = Path("out"),
    stream: TextIO | None = None,
) -> int:
    """Run the demo; return 0 if the counted results keep every promise.

    Args:
        seed: Selects the failing calls and the killed worker.
        keep: Leave the embedded AWS running, with all records of the job.
        out: The folder for the report and the certificate.
        stream: The output stream; the default is standard output.

    Raises:
        UsageError: `embedded.endpoint.not_loopback`; a folder cannot be written to.
        UnreachableError: The embedded AWS could not be installed or started.
    """
    refuse_remote(os.environ)
    folder = make_folders(out)
    screen = open_screen(stream or sys.stdout)
    problems, figures = ["the demo did not finish"], ""
    try:
        with cancelled_on_signals() as stopped:
            counts = await run_with_processes(folder, screen, seed, keep=keep, out=out)
        problems, figures = failed_checks(counts), summary_line(counts)
    except DemoError as error:
        problems = [str(error)]
    except asyncio.CancelledError:
        problems = []  # the user stopped it, so no logs are needed
        if not stopped:
            raise
        return INTERRUPTED
    finally:
        clean_up(folder, screen, problems, keep=keep)
    for promise in problems:
        screen.print_line("failed", promise)
    if figures:
        screen.print_figures(figures)
    return 1 if problems else 0


async def run_with_processes(
    folder: Path, screen: Screen, seed: int, *, keep: bool, out: Path
) -> Counts:
    """Start the processes and run the story."""
    try:
        with running(folder, seed, keep=keep) as processes:
            return await run_story(processes, screen, seed, out)
    finally:
        screen.hide_progress()


def make_folders(out: Path) -> Path:
    """Create the folder for the results; return a new folder for state and logs."""
    state = Path.cwd() / ".piecework"
    try:
        out.mkdir(parents=True, exist_ok=True)
        state.mkdir(exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="demo-", dir=state))
    except OSError as error:
        message = f"{error.filename} cannot be written to: {error.strerror}."
        step = "Run the demo in a writable folder, or pass another `--out`."
        raise UsageError(message, next_step=step) from error


@contextmanager
def cancelled_on_signals() -> Iterator[list[int]]:
    """Let SIGTERM and SIGHUP stop the demo like Ctrl-C; yield the received signals."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    received: list[int] = []

    def stop(number: int) -> None:
        received.append(number)
        if task is not None:
            task.cancel()

    numbers = (signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, stop, number)
    try:
        yield received
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def clean_up(folder: Path, screen: Screen, problems: list[str], *, keep: bool) -> None:
    """Remove the folder, or report where it is and how to use it."""
    if keep:
        where = f"PIECEWORK_STATE_DIR={folder}"
        screen.print_line("kept", f"{where} piecework jobs list")
        screen.print_line("", f"{where} piecework down    # stops it")
    elif problems:
        screen.print_line("logs", str(folder))
    else:
        shutil.rmtree(folder, ignore_errors=True)
