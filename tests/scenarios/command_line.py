"""The command line: in this process, which is quick, or as one of its own."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from typer.testing import CliRunner

from piecework_orchestrator.cli.app import app
from tests.scenarios import pipelines

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


async def start(*words: str) -> asyncio.subprocess.Process:
    """Start a command as a process of its own."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "piecework_orchestrator.cli",
        *words,
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def end(process: asyncio.subprocess.Process) -> Done:
    """Wait for the end of a command that was started."""
    out, err = await asyncio.wait_for(process.communicate(), 30)
    return Done(process.returncode or 0, out.decode(), err.decode())


async def piecework(*words: str, stdin: str = "") -> Done:
    """Run a command to its end, on a thread and an event loop of its own."""
    runner = CliRunner()
    done = await asyncio.to_thread(runner.invoke, app, list(words), input=stdin)
    structlog.reset_defaults()  # it logged to a stream that is closed by now
    root = logging.getLogger()
    for handler in [h for h in root.handlers if h.get_name() == "piecework"]:
        root.removeHandler(handler)
    return Done(done.exit_code, done.stdout, done.stderr)


def manifest(path: Path, items: Sequence[pipelines.Item]) -> str:
    """Write a manifest of chunks; return its path."""
    path.write_text("".join(f"{item.model_dump_json()}\n" for item in items))
    return str(path)
