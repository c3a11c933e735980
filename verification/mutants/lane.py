"""Provide a copy of the repository with its own server, in which mutants run."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event

from piecework_orchestrator.embedded import environment, server
from verification.mutants.mutant import Mutant
from verification.mutants.one_server import VARIABLE
from verification.mutants.relevant import narrow, scenarios, simulated

ROOTS = [".", "workers", "orchestrator", "simulation", "examples"]
COPIED = ["piecework", *ROOTS[1:], "infra", "requirements", "tests", "verification"]
COPIED += ["docs", "localstack", "pyproject.toml", "README.md"]
#: Maximum seconds for one test, and for all tests of a mutant.
TEST_S = 40
RUN_S = 420
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
TIMED_OUT = re.compile(r"\+ Timeout \+")
NO_TESTS = 5


class UnusableRunError(Exception):
    """Pytest did not report whether the mutant was caught."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What all lanes know.

    Attributes:
        green: The test files that were seen to pass without a mutant.
        children: The process groups that are at work.
    """

    green: set[str] = field(default_factory=set)
    children: set[int] = field(default_factory=set)
    stopping: Event = field(default_factory=Event)

    def stop(self, *_: object) -> None:
        """End the run: every lane removes its copy and stops its server."""
        self.stopping.set()
        for group in list(self.children):
            kill(group)


@dataclass(frozen=True, slots=True)
class Lane:
    """Tries one mutant after the other."""

    root: Path
    environment: dict[str, str]
    shared: Shared

    def find_catching_test(self, mutant: Mutant, *, with_scenarios: bool) -> str | None:
        """Return the test that catches a mutant; None if it survives."""
        file = self.root / mutant.path
        source = file.read_bytes()
        write(file, mutant.apply(source))
        try:
            caught = self.run(narrow(self.root, mutant.path))
            if caught is None and not mutant.path.startswith("piecework/store/"):
                caught = self.run(simulated(self.root))
            if caught is None and with_scenarios:
                caught = self.run(scenarios(self.root, mutant.path))
        finally:
            write(file, source)
        if caught is not None and "::" in caught:
            self.passes_without_mutants(caught.partition("::")[0])
        return caught

    def passes_without_mutants(self, file: str) -> None:
        """Check once that a test file passes without a mutant."""
        if file not in self.shared.green and self.run([file]) is not None:
            message = f"{file} fails without any mutant"
            raise UnusableRunError(message)
        self.shared.green.add(file)

    def run(self, tests: list[str]) -> str | None:
        """Return the first test that fails."""
        if not tests:
            return None
        code, said = self._pytest(tests)
        if code in {0, NO_TESTS}:
            return None
        failed = FAILED.search(said)
        if failed is not None:
            return failed[1]
        if code < 0 or TIMED_OUT.search(said):
            return "a timeout"
        raise UnusableRunError(said[-2000:])

    def _pytest(self, tests: list[str]) -> tuple[int, str]:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        command += ["-p", "verification.mutants.one_server", "--tb=no", "-rfE"]
        command += [f"--timeout={TEST_S}", f"--basetemp={self.root}.tests", *tests]
        process = subprocess.Popen(
            command,
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        self.shared.children.add(process.pid)
        try:
            said, _ = process.communicate(timeout=RUN_S)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL, ""
        finally:
            self.shared.children.discard(process.pid)
            kill(process.pid)  # also its children: workers of an interrupted test
            process.wait()
        if self.shared.stopping.is_set():
            message = "stopped"
            raise UnusableRunError(message)
        return process.returncode, said


def kill(group: int) -> None:
    """Kill one of the run's process groups, if it still exists."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def snapshot(source: Path, target: Path) -> None:
    """Copy the repository as it is now: it may be edited while mutants are tried."""
    target.mkdir(parents=True)
    for name in COPIED:
        whole = source / name
        ignore = shutil.ignore_patterns("__pycache__")
        if whole.is_dir():
            shutil.copytree(whole, target / name, ignore=ignore)
        else:
            shutil.copy(whole, target / name)


@contextmanager
def lane(source: Path, folder: Path, shared: Shared) -> Iterator[Lane]:
    """Copy the sources and start a server; remove both afterwards."""
    root, state = folder / "repository", folder / "server"
    snapshot(source, root)
    state.mkdir()
    running = server.start(
        environment.ensure_environment(report=print), state, "us-east-1"
    )
    try:
        # The plugin of `one_server` is imported before pytest reads `pythonpath`.
        path = os.pathsep.join(str(root / name) for name in ROOTS)
        told = {VARIABLE: json.dumps(asdict(running)), "PYTHONPATH": path}
        yield Lane(root, {**os.environ, **told}, shared)
    finally:
        server.stop(running.pid, state)


def write(file: Path, source: bytes) -> None:
    """Write a file and delete its bytecode: Python checks only size and second."""
    file.write_bytes(source)
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        compiled.unlink()
