"""Run the demo and clean up behind it, however it ends."""

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

from orchestrator.demo.failure import StoryError
from orchestrator.demo.machine import running
from orchestrator.demo.screen import Screen, screen_on
from orchestrator.demo.story import tell
from orchestrator.demo.verdict import Counts, failures, last_line
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
    """Tell the story; 0 if everything that it promises was counted to be true.

    Args:
        seed: Decides which calls fail and which worker is killed.
        keep: Leave the embedded AWS running, with all the job's records in it.
        out: The folder that the report and the certificate are written to.
        stream: Where the story is told; default: standard output.

    Raises:
        UsageError: `embedded.endpoint.not_loopback`; a folder cannot be written to.
        UnreachableError: The embedded AWS could not be installed or started.
    """
    refuse_remote(os.environ)
    folder = make_folders(out)
    screen = screen_on(stream or sys.stdout)
    broken, figures = ["it did not come to its end"], ""
    try:
        with stopping_on_signals() as stopped:
            counts = await on_stage(folder, screen, seed, keep=keep, out=out)
        broken, figures = failures(counts), last_line(counts)
    except StoryError as error:
        broken = [str(error)]
    except asyncio.CancelledError:
        broken = []  # as somebody wanted it: there is nothing to look into
        if not stopped:
            raise
        return INTERRUPTED
    finally:
        tidy(folder, screen, broken, keep=keep)
    for promise in broken:
        screen.say("failed", promise)
    if figures:
        screen.figures(figures)
    return 1 if broken else 0


async def on_stage(
    folder: Path, screen: Screen, seed: int, *, keep: bool, out: Path
) -> Counts:
    """Tell the story with everything running that it needs."""
    try:
        with running(folder, seed, keep=keep) as machine:
            return await tell(machine, screen, seed, out)
    finally:
        screen.rest()


def make_folders(out: Path) -> Path:
    """Make the folder for the results, and return a new one for what runs."""
    state = Path.cwd() / ".piecework"
    try:
        out.mkdir(parents=True, exist_ok=True)
        state.mkdir(exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="demo-", dir=state))
    except OSError as error:
        message = f"{error.filename} cannot be written to: {error.strerror}."
        step = "Run from a folder that you may write to, or pass another `--out`."
        raise UsageError(message, next_step=step) from error


@contextmanager
def stopping_on_signals() -> Iterator[list[int]]:
    """Let SIGTERM and SIGHUP end the demo as Ctrl-C does; yield those that came."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    came: list[int] = []

    def stop(number: int) -> None:
        came.append(number)
        if task is not None:
            task.cancel()

    numbers = (signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, stop, number)
    try:
        yield came
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def tidy(folder: Path, screen: Screen, broken: list[str], *, keep: bool) -> None:
    """Remove what nobody needs any more, or say where it is and what to do with it."""
    if keep:
        where = f"PIECEWORK_STATE_DIR={folder}"
        screen.say("kept", f"{where} piecework jobs list")
        screen.say("", f"{where} piecework down    # stops it")
    elif broken:
        screen.say("logs", str(folder))
    else:
        shutil.rmtree(folder, ignore_errors=True)
