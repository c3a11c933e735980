"""Adapt a rival to the bench: its script, its environment, and its server."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench.adapters.systems import Rival
from bench.environment import BenchEnvironment
from bench.processes import Group, run, start, tree_cpu_s
from bench.rivals import local_server
from tests.tools import NotInstalledError, bin_of

SCRIPTS = Path(__file__).parents[1] / "rivals"
#: Seconds without a request other than an empty poll after which all is acknowledged.
QUIET_S = 0.3
POLLS = ("sqs.ReceiveMessage",)
#: The configuration field of each server's address.
ADDRESSES = {"postgres": "dsn", "redis": "redis", "temporal": "address"}


@cache
def unavailable_reason(lock: str) -> str:
    """Return why an environment is unavailable; empty if it is available. Cached."""
    try:
        bin_of(lock)
    except NotInstalledError as error:
        return f"not installed: {error}"
    return ""


@contextmanager
def run_rival_server(rival: Rival, folder: Path) -> Iterator[Mapping[str, str]]:
    """Run a rival's server; yield the configuration fields of its address."""
    if not rival.server:
        yield {}
        return
    name = f"bench.rivals.{rival.server}"
    if rival.server != "postgres":
        name += "_server"
    server: Any = importlib.import_module(name)
    try:
        yield {ADDRESSES[rival.server]: server.start(folder)}
    finally:
        server.stop()


@dataclass
class RivalAdapter:
    """A rival in the bench."""

    env: BenchEnvironment
    rival: Rival
    _seen: tuple[float, float] = (-1.0, 0.0)

    @property
    def name(self) -> str:
        """The name in tables."""
        return self.rival.name

    def setup(self) -> None:
        """Have it make its queue, table or schema."""
        self._run("setup")

    def enqueue(self) -> Mapping[str, float]:
        """Have it submit all tasks."""
        said = self._run("enqueue").strip().splitlines()
        answer: dict[str, float] = json.loads(said[-1])
        return answer

    def work(self) -> Group:
        """Start one worker process."""
        log = self.env.folder / "worker.log"
        return start(self._command("work"), self.env.environment(), log)

    def ready(self) -> bool:
        """Return whether a worker consumes messages."""
        return self.env.ledger.poll().ready > 0

    def settled(self) -> bool:
        """Return whether AWS has received only polls for a moment."""
        counts = self.env.counts()
        asked = counts.requests - counts.requests_of(*POLLS)
        now = time.monotonic()
        if asked != self._seen[0]:
            self._seen = (asked, now)
        return now - self._seen[1] >= QUIET_S

    def ended(self, seen: float) -> float:  # noqa: ARG002 -- the adapter's interface
        """Return when it was through: with the last task that was done."""
        return self.env.ledger.poll().last_done / 1e9

    def server_cpu_s(self) -> float:
        """Return the CPU of its server, with all of the server's processes."""
        server = self.rival.server
        return tree_cpu_s(local_server.pid_of(server)) if server else 0.0

    def teardown(self) -> None:
        """Remove the created resources."""
        self._run("teardown")

    def _command(self, verb: str) -> list[str]:
        python = str(bin_of(self.rival.lock) / "python")
        script = str(SCRIPTS / f"{self.rival.script}.py")
        return [python, script, verb, "--config", str(self.env.config_file)]

    def _run(self, verb: str) -> str:
        log = self.env.folder / f"{verb}.log"
        return run(self._command(verb), self.env.environment(), log)
