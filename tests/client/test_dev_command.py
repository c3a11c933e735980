"""Promise: `piecework dev` serves its folder, and runs the code as it is now."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import ClientSession
from pydantic import BaseModel

from piecework import pipeline
from piecework.aws.endpoint import ENDPOINT_VARIABLES, IN_PROCESS
from piecework.client import Client, Done
from piecework.errors import UnreachableError

APP = """
from pydantic import BaseModel
from factor import FACTOR
from piecework import pipeline


class Row(BaseModel):
    n: int


@pipeline
async def times(row: Row) -> int:
    return row.n * FACTOR
"""
COMMAND = (sys.executable, "-m", "piecework_orchestrator.cli")


class Row(BaseModel):
    """What the program that submits knows of the payload."""

    n: int


@pipeline
async def times(row: Row) -> int:
    """Stand for the pipeline of the folder, which the program does not import."""
    raise NotImplementedError


@dataclass
class Dev:
    """A running `piecework dev`."""

    folder: Path
    process: asyncio.subprocess.Process

    async def says(self, text: str) -> None:
        """Read the output of the command until a line has this text."""
        assert self.process.stderr is not None
        read = []
        while not read or text not in read[-1]:
            line = await self.process.stderr.readline()
            assert line, f"it ended without {text!r}: {read}"
            read.append(line.decode())

    async def result(self) -> int:
        """Submit a chunk from this process, and return its result."""
        async with Client() as client:
            job = await client.submit(times, [Row(n=3)])
            (done,) = [item async for item in job.results()]
            assert isinstance(done, Done)
            return done.value

    def files(self) -> set[str]:
        """Return what is in the folder, without compiled modules."""
        return {path.name for path in self.folder.iterdir()} - {"__pycache__"}


@pytest.fixture
async def dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Dev]:
    for name in (*ENDPOINT_VARIABLES, "PIECEWORK_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    killed = {"endpoint": "http://127.0.0.1:9", "pid": 1, "region": "us-east-1"}
    killed["version"] = IN_PROCESS
    (tmp_path / ".piecework").mkdir()
    (tmp_path / ".piecework" / "emulator.json").write_text(json.dumps(killed))
    with pytest.raises(UnreachableError, match="it has ended, and its jobs") as ended:
        async with Client():
            pass
    assert "piecework dev MODULE" in ended.value.next_step
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "factor.py").write_text("FACTOR = 2\n")
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "dev", "app", stderr=asyncio.subprocess.PIPE
    )
    started = Dev(tmp_path, process)
    try:
        async with asyncio.timeout(90):
            await started.says("next: piecework submit app FILE --wait")
            yield started
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_changed_code_is_used_and_broken_code_is_not(dev: Dev) -> None:
    assert 6 == await dev.result()

    (dev.folder / "factor.py").write_text("FACTOR = 5\n")
    await dev.says("reloaded app: times")
    assert 15 == await dev.result()

    (dev.folder / "factor.py").write_text("FACTOR = \n")
    await dev.says("SyntaxError: invalid syntax (factor.py, line 1)")
    assert 15 == await dev.result()

    (dev.folder / "factor.py").write_text("FACTOR = 7\n")
    await dev.says("reloaded app: times")
    assert 21 == await dev.result()
    await dev.says("SUCCEEDED: 1 chunk")


async def test_the_folder_is_not_shared_and_nothing_is_left(dev: Dev) -> None:
    state = json.loads((dev.folder / ".piecework" / "emulator.json").read_text())
    async with ClientSession() as session, session.get(state["endpoint"]) as answer:
        assert 403 == answer.status  # it has no access key
    for words in (["up"], ["down"], ["dev", "app"]):
        refused = await asyncio.create_subprocess_exec(
            *COMMAND, *words, stderr=asyncio.subprocess.PIPE
        )
        _, written = await refused.communicate()
        assert 2 == refused.returncode
        assert b"error embedded.state.in_use: `piecework dev` runs" in written

    os.kill(dev.process.pid, signal.SIGINT)
    await dev.says("stopped; nothing is left")
    assert 0 == await dev.process.wait()
    assert {"app.py", "factor.py"} == dev.files()
