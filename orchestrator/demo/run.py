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

from orchestrator.demo.failure import StoryError
from orchestrator.demo.machine import Machine, running
from orchestrator.demo.screen import Screen, screen_on
from orchestrator.demo.story import tell
from orchestrator.demo.surroundings import PACE
from orchestrator.demo.verdict import Counts, failures, last_line
from orchestrator.embedded.endpoint import refuse_remote
from piecework.errors import UsageError

INTERRUPTED = 130
#: Lease and five seconds.
TAKEOVER_LIMIT_S = float(PACE["PIECEWORK_LEASE_S"]) + 5.0


async def run_demo(
    *, seed: int = 42, keep: bool = False, out: Path = Path("out")
) -> int:
    """Tell the story; 0 if everything that it promises was counted to be true.

    Args:
        seed: Decides which calls fail and which worker is killed.
        keep: Leave the embedded AWS running, with all the job's records in it.
        out: The folder that the report and the certificate are written to.

    Raises:
        UsageError: `embedded.endpoint.not_loopback`; a folder cannot be written to.
        UnreachableError: The embedded AWS could not be installed or started.
    """
    refuse_remote(os.environ)
    folder = make_folders(out)
    screen = screen_on(sys.stdout)
    ended_well = False
    with stopping_on_signals() as stopped:
        try:
            with running(folder, seed, keep=keep) as machine:
                counts = await tell(machine, screen, seed, out)
            if keep:
                tell_how_to_look(machine, screen)
            ended_well = tell_verdict(counts, screen)
            return 0 if ended_well else 1
        except StoryError as error:
            screen.say("failed", str(error))
            return 1
        except asyncio.CancelledError:
            ended_well = True  # as it was asked to: there is nothing to look into
            if stopped:
                return INTERRUPTED
            raise
        finally:
            screen.rest()
            tidy(folder, screen, keep=keep, ended_well=ended_well)


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


def tell_verdict(counts: Counts, screen: Screen) -> bool:
    """Say which promises were not kept, then the figures; return whether all were."""
    broken = failures(counts, TAKEOVER_LIMIT_S)
    for promise in broken:
        screen.say("failed", promise)
    screen.figures(last_line(counts))
    return not broken


def tell_how_to_look(machine: Machine, screen: Screen) -> None:
    """Say how to look at what was kept, and how to stop it."""
    where = f"PIECEWORK_STATE_DIR={machine.folder}"
    screen.say("kept", f"{where} piecework jobs list")
    screen.say("", f"{where} piecework down    # stops it")


def tidy(folder: Path, screen: Screen, *, keep: bool, ended_well: bool) -> None:
    """Remove what nobody needs any more; after a failure the logs stay."""
    if ended_well and not keep:
        shutil.rmtree(folder, ignore_errors=True)
    elif not ended_well:
        screen.say("logs", str(folder))
