"""The command line: in this process, which is quick, or as one of its own."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from typer.testing import CliRunner

from piecework_orchestrator.cli.app import app
from tests.conftest import forget_logs

ROOT = Path(__file__).parents[2]
COUNTING = "tests.scenarios.pipelines:counting"


@dataclass(frozen=True)
class Done:
    """What a command came to."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        """Its result, of `-o json`."""
        return json.loads(self.stdout)

    @property
    def lines(self) -> list[Any]:
        """Its result, of `-o jsonl`."""
        return [json.loads(line) for line in self.stdout.splitlines()]


#: The commands that this process has started, until the end of the scenario.
STARTED: list[asyncio.subprocess.Process] = []


def heed_interrupts() -> None:
    """Restore the handler of SIGINT, which `nohup` and a shell's `&` ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


async def start(*words: str) -> asyncio.subprocess.Process:
    """Start a command as a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "piecework_orchestrator",
        *words,
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=heed_interrupts,
    )
    STARTED.append(process)
    return process


async def kill_started() -> None:
    """Kill the commands that a failed scenario has left behind."""
    while STARTED:
        process = STARTED.pop()
        if process.returncode is None:
            process.kill()
            await process.wait()


async def end(process: asyncio.subprocess.Process) -> Done:
    """Wait for the end of a command that was started."""
    out, err = await asyncio.wait_for(process.communicate(), 90)
    return Done(process.returncode or 0, out.decode(), err.decode())


async def piecework(*words: str, stdin: str = "") -> Done:
    """Run a command to its end, on a thread and an event loop of its own."""
    runner = CliRunner()
    done = await asyncio.to_thread(runner.invoke, app, list(words), input=stdin)
    forget_logs()  # it logged to a stream that is closed by now
    return Done(done.exit_code, done.stdout, done.stderr)


def manifest(path: Path, items: Sequence[BaseModel]) -> str:
    """Write a manifest of chunks; return its path."""
    path.write_text("".join(f"{item.model_dump_json()}\n" for item in items))
    return str(path)
