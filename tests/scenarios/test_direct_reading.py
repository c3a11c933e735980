"""A command that shows a job: what it loads, and that it shows what the SDK reads."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from piecework.aws.endpoint import Emulator
from piecework_orchestrator.embedded import server
from tests.scenarios.command_line import COUNTING, ROOT, Done, end, manifest, piecework
from tests.scenarios.command_line import start as start_command
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item
from tests.unit.test_imports import SLOW

PROGRAM = """\
import sys
from piecework_orchestrator.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


async def loading(*words: str) -> tuple[Done, set[str]]:
    """Run a command as a process; return also the slow libraries that it loaded."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, *words),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    done = await end(process)
    return done, SLOW & set(done.stderr.splitlines()[-1].split())


async def test_a_job_is_shown_without_the_sdk_and_without_pydantic(
    machine: Scenario,
    deployed: Emulator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = manifest(tmp_path / "items.jsonl", [Item(n=n) for n in range(3)])
    await machine.process()
    await piecework("submit", COUNTING, source, "--job-id", "job-1", "--wait")

    server.write(tmp_path, deployed)  # as `piecework up` does
    monkeypatch.setenv("PIECEWORK_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    table, loaded = await loading("jobs", "show", "job-1")
    assert (0, {"rich", "typer"}) == (table.exit_code, loaded)
    assert "3 SUCCEEDED" in table.stdout

    quick = await end(await start_command("jobs", "show", "job-1", "-o", "json"))
    monkeypatch.setenv("PIECEWORK_AWS_TRANSPORT", "sdk")
    whole = await end(await start_command("jobs", "show", "job-1", "-o", "json"))
    assert (0, 0) == (quick.exit_code, whole.exit_code)
    assert json.loads(whole.stdout) == json.loads(quick.stdout)
