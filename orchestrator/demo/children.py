"""Start child processes, wait for them, and kill them by their pid."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.demo.failure import DemoError

TAIL_LINES = 6
#: Two above this package: what has to be importable for the children, too.
SOURCES = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """A process that this process started, with its log file."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal if the process is running."""
        self.process.send_signal(number)

    async def wait_until_exited(self, patience_s: float = 15.0) -> None:
        """Wait until the process exits."""
        try:
            await asyncio.to_thread(self.process.wait, patience_s)
        except subprocess.TimeoutExpired as error:
            message = f"{self.name} (pid {self.pid}) did not stop in {patience_s:g} s"
            raise DemoError(message) from error

    async def read_first_line(self) -> bytes:
        """Return the first line of its standard output.

        Raises:
            DemoError: The process exited without a line.
        """
        if self.process.stdout is None:
            return b""
        line = await asyncio.to_thread(self.process.stdout.readline)
        if not line:
            raise DemoError(self.describe_exit())
        return line

    def describe_exit(self) -> str:
        """Return the exit code and the last lines of the log."""
        lines = self.log.read_text("utf-8", "replace").splitlines()[-TAIL_LINES:]
        tail = "\n".join(lines) or "(the log is empty)"
        return f"{self.name} exited with code {self.process.poll()}:\n{tail}"


def start_process(
    name: str,
    module: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    *,
    listen: bool = False,
) -> ChildProcess:
    """Start a Python module; with `listen`, its standard output can be read."""
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
    return ChildProcess(name, process, log)


def kill_all(children: Iterable[ChildProcess]) -> None:
    """Kill the running processes and collect all of them."""
    children = list(children)
    for child in children:
        if child.alive:
            child.signal(signal.SIGKILL)
    for child in children:
        child.process.wait()
        if child.process.stdout is not None:
            child.process.stdout.close()
