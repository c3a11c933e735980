"""Two versions of the code: this one, and the next, with other versions of all data.

The next one is a copy with a few changed lines, as in a release that this one cannot
read. They change the version of items and of messages, and an attribute.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("piecework", "workers", "orchestrator")
ROOTS = (".", "workers", "orchestrator")
TESTS = ("tests/scenarios/pipelines.py", "verification/upgrade/submitting.py")
#: What the next release changes: where, from what, to what.
CHANGES = (
    ("piecework/domain/schema.py", "SCHEMA: Final = 1\n", "SCHEMA: Final = 2\n"),
    ("piecework/domain/schema.py", "MESSAGES: Final = 1\n", "MESSAGES: Final = 2\n"),
    ("piecework/store/jobs.py", '"fence": 0,\n', '"fence": 0,\n"colour": "green",\n'),
)


def next_version(folder: Path) -> Path:
    """Make the next version in a folder."""
    for name in PACKAGES:
        skipped = shutil.ignore_patterns("__pycache__", "embedded", "demo")
        shutil.copytree(ROOT / name, folder / name, ignore=skipped)
    for name in TESTS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    for name, now, then in CHANGES:
        text = (folder / name).read_text("utf-8")
        assert text.count(now) == 1, f"{name} has no line {now!r} to change"
        (folder / name).write_text(text.replace(now, then), "utf-8")
    return folder


@dataclass
class Version:
    """A version of the code, the outside ledger of what it does, and its log.

    Attributes:
        name: What its files are called by.
        code: The folder that it runs from.
    """

    name: str
    code: Path
    files: Path
    running: list[Process] = field(default_factory=list)

    @property
    def log(self) -> str:
        """All that its processes said on stderr."""
        path = self.files / f"{self.name}.log"
        return path.read_text("utf-8") if path.exists() else ""

    @property
    def ledger(self) -> list[str]:
        """What its workers did, line by line."""
        path = self.files / f"{self.name}.ledger"
        return path.read_text("utf-8").splitlines() if path.exists() else []

    async def start(self, module: str, *arguments: str) -> Process:
        """Start one of its programs; its stdin and stdout are pipes."""
        own = {
            "SCENARIO_LEDGER": str(self.files / f"{self.name}.ledger"),
            "PIECEWORK_METRICS": "emf",
            "PYTHONPATH": os.pathsep.join(str(self.code / name) for name in ROOTS),
        }
        with (self.files / f"{self.name}.log").open("a") as log:
            started = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", module, *arguments),
                cwd=self.code,
                env={**os.environ, **own},
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
            )
        self.running.append(started)
        return started

    async def worker(self) -> Process:
        """Start a worker, with a reconciler beside it."""
        return await self.start(
            "piecework_worker", "--pipelines", "tests.scenarios.pipelines"
        )

    async def end(self) -> None:
        """Kill what still runs."""
        for process in self.running:
            if process.returncode is None:
                process.kill()
                await process.wait()
