"""Guarantee: `piecework dev` serves its folder, and runs the code as it is now."""

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
from piecework.errors import UnreachableError, UsageError
from piecework_orchestrator.embedded import announce
from tests.unit.orchestrator.cli.conftest import RUNNER, app

APP = """
import asyncio
from pathlib import Path
from pydantic import BaseModel
from factor import FACTOR
from piecework import Dependency, pipeline

bank = Dependency("bank")


class Row(BaseModel):
    n: int


@bank.call
async def pay(step: str) -> None:
    with open("paid.txt", "a") as file:
        file.write(step)
    while step == "B" and not Path("go").exists():
        await asyncio.sleep(0.02)


@pipeline
async def times(row: Row) -> int:
    if row.n == HELD:
        await pay("A")
        await pay("B")
    return row.n * FACTOR
""".replace("HELD", "4")
HELD = 4


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

    async def paid(self, calls: str) -> None:
        """Wait until these calls were made."""
        file = self.folder / "paid.txt"
        while not file.exists() or file.read_text() != calls:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    async def result(self, n: int = 3) -> int:
        """Submit a chunk from this process, and return its result."""
        async with Client() as client:
            job = await client.submit(times, [Row(n=n)])
            (done,) = [item async for item in job.results()]
            assert isinstance(done, Done)
            return done.value

    async def change(self, factor: str, said: str) -> None:
        """Write another factor into the code, and read what the command says."""
        (self.folder / "factor.py").write_text(f"FACTOR = {factor}\n")
        await self.says(said)


@pytest.fixture
async def dev(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[Dev]:
    if grace := getattr(request, "param", ""):
        monkeypatch.setenv("PIECEWORK_SHUTDOWN_GRACE_S", grace)
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
        *(sys.executable, "-m", "piecework_orchestrator", "dev", "app"),
        stderr=asyncio.subprocess.PIPE,
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


async def test_a_folder_is_served_until_it_ends_and_nothing_is_left(dev: Dev) -> None:
    """One process for all: it takes seconds to start."""
    # Other commands do not share the folder.
    state = json.loads((dev.folder / ".piecework" / "emulator.json").read_text())
    async with ClientSession() as session, session.get(state["endpoint"]) as answer:
        assert 403 == answer.status  # it has no access key
    os.kill(dev.process.pid, signal.SIGSTOP)
    for words in (["up"], ["down"]):
        refused = RUNNER.invoke(app, words)
        assert 2 == refused.exit_code
        assert "error embedded.state.in_use: `piecework dev` runs" in refused.stderr
    with pytest.raises(UsageError, match="`piecework dev` runs"), announce("", ""):
        pass
    os.kill(dev.process.pid, signal.SIGCONT)

    # Changed code is used, and broken code is not.
    assert 6 == await dev.result()
    for factor, said, result in (
        ("5", "reloaded app: times", 15),
        ("", "SyntaxError: invalid syntax (factor.py, line 1)", 15),
        ("7", "reloaded app: times", 21),
    ):
        await dev.change(factor, said)
        assert result == await dev.result()
    await dev.says("SUCCEEDED: 1 chunk")

    # A reload lets calls end for the grace.
    running = asyncio.create_task(dev.result(HELD))
    await dev.paid("AB")
    await dev.change("2", "reloading: 1 running chunk may end first, within 20 s")
    (dev.folder / "go").touch()
    assert 28 == await running
    await dev.says("reloaded app: times")
    await dev.paid("AB")

    # An interrupt cuts running chunks, and says so.
    (dev.folder / "go").unlink()
    running = asyncio.create_task(dev.result(HELD))
    await dev.paid("ABAB")
    await dev.change("5", "reloading: 1 running chunk may end first, within 20 s")
    os.kill(dev.process.pid, signal.SIGINT)
    async with asyncio.timeout(15):
        await dev.says("cut 1 running chunk")
        await dev.says("stopped; nothing is left")
    assert 0 == await dev.process.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    left = {path.name for path in dev.folder.iterdir()} - {"__pycache__"}
    assert {"app.py", "factor.py", "paid.txt"} == left


@pytest.mark.parametrize("dev", ["0.1"], indirect=True)
async def test_a_reload_after_the_grace_pays_no_answered_call_again(dev: Dev) -> None:
    running = asyncio.create_task(dev.result(HELD))
    await dev.paid("AB")
    await dev.change("5", "reloading: 1 running chunk may end first")
    await dev.says("cut 1 running chunk; answered calls will not be paid again")
    await dev.paid("ABB")
    (dev.folder / "go").touch()
    assert 20 == await running
    await dev.paid("ABB")
