"""The processes that the demo starts, and ends by their pid."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.demo.failure import StoryError

TAIL_LINES = 6
#: Two above this package: what has to be importable for the children, too.
SOURCES = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Child:
    """A process of ours, and the file that it writes its log to."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        self.process.send_signal(number)

    async def gone(self, patience_s: float = 15.0) -> None:
        """Wait for its end."""
        try:
            await asyncio.to_thread(self.process.wait, patience_s)
        except subprocess.TimeoutExpired as error:
            message = f"{self.name} (pid {self.pid}) did not stop in {patience_s:g} s"
            raise StoryError(message) from error

    async def first_line(self) -> bytes:
        """Return the first line of its output.

        Raises:
            StoryError: It ended without one.
        """
        if self.process.stdout is None:
            return b""
        line = await asyncio.to_thread(self.process.stdout.readline)
        if not line:
            raise StoryError(self.last_words())
        return line

    def last_words(self) -> str:
        """Say how it ended, with the end of its log."""
        lines = self.log.read_text("utf-8", "replace").splitlines()[-TAIL_LINES:]
        tail = "\n".join(lines) or "(its log is empty)"
        return f"{self.name} ended with {self.process.poll()}:\n{tail}"


def start(
    name: str,
    module: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    *,
    listen: bool = False,
) -> Child:
    """Start a Python module; `listen`: its output is for us, else nobody reads it."""
    path = [str(SOURCES), environment.get("PYTHONPATH", "")]
    with log.open("wb") as sink:
        process = subprocess.Popen(  # noqa: S603 -- our own modules
            [sys.executable, "-m", *module],
            env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, path))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if listen else subprocess.DEVNULL,
            stderr=sink,
            # Ctrl-C is the demo's: it ends them in its own order.
            start_new_session=True,
        )
    return Child(name, process, log)


def end(children: Iterable[Child]) -> None:
    """Kill what still lives, and leave no zombie."""
    children = list(children)
    for child in children:
        if child.alive:
            child.signal(signal.SIGKILL)
    for child in children:
        child.process.wait()
        if child.process.stdout is not None:
            child.process.stdout.close()
