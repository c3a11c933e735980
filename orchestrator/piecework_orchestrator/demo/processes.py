"""Start and stop the demo's processes: embedded AWS, services and workers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import ClientError, ClientSession

from piecework.aws.endpoint import Emulator
from piecework.settings import load_settings
from piecework_orchestrator.embedded import down, up

# ── read the services' own ledgers ────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ModelStats:
    """Counts of the model.

    Attributes:
        made: Calls, including failed attempts.
        answered: Different requests that it answered.
        answered_twice: Requests that it answered more than once, so paid twice.
    """

    made: int
    answered: int
    answered_twice: int


@dataclass(frozen=True, slots=True)
class AddinStats:
    """Effects at the add-in for one job."""

    effects: Counter[str]
    duplicates: int
    slots_open: int


@dataclass(frozen=True, slots=True)
class ServiceLedgers:
    """Reads both ledgers over HTTP; raises DemoError if a service does not respond."""

    http: ClientSession
    urls: dict[str, str]

    async def model(self) -> ModelStats:
        """Read the model's counts."""
        reply = await self._get(self.urls["stats"])
        return ModelStats(reply["calls"], reply["answered"], reply["answered_twice"])

    async def addin(self, job: str) -> AddinStats:
        """Read the add-in's ledger of a job."""
        reply = await self._get(self.urls["ledger"], job=job)
        return AddinStats(
            Counter(reply["effects"]),
            reply["duplicate_effects"],
            len(reply["slots_open"]),
        )

    async def _get(self, url: str, **query: str) -> Any:
        try:
            async with self.http.get(url, params=query) as response:
                response.raise_for_status()
                return await response.json()
        except ClientError as error:
            message = f"{url} does not respond: {type(error).__name__}"
            raise DemoError(message) from error


# ── start child processes ─────────────────────────────────────────────────────

TAIL_LINES = 6


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
    with log.open("wb") as sink:
        process = subprocess.Popen(  # noqa: S603 -- our own modules
            [sys.executable, "-m", *module],
            env=environment,
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


EXAMPLE = "piecework_examples.contract_review"
SMALL_MODEL = "anthropic.small-review-v1:0"
LARGE_MODEL = "anthropic.large-review-v1:0"
#: Seconds that the model takes for an answer, and after which a worker gives up.
LATENCY_S = 0.25
MODEL_TIMEOUT_S = 3
FAULT_RATE = 0.05
WORKER_LOGS = "w*.jsonl"


@dataclass(slots=True)
class DemoProcesses:
    """The running processes of the demo.

    Attributes:
        folder: The folder with the state of the embedded AWS and all logs.
        urls: URLs of the services, known after `listen`.
        stopped: Names of the workers that were killed or stopped.
    """

    folder: Path
    environment: dict[str, str]
    emulator: Emulator
    services: ChildProcess
    urls: dict[str, str] = field(default_factory=dict)
    workers: dict[str, ChildProcess] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)

    async def listen(self) -> None:
        """Wait until the services print their URLs."""
        self.urls = json.loads(await self.services.read_first_line())

    def start_worker(self, model: str) -> ChildProcess:
        """Start one more worker that uses the given model."""
        name = f"w{len(self.workers) + 1}"
        environment = {
            **self.environment,
            "PIECEWORK_LOG_LEVEL": "debug",
            "AWS_DEFAULT_REGION": self.emulator.region,
            "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": self.urls["bedrock"],
            "REVIEW_ADDIN_URL": self.urls["addin"],
            "REVIEW_MODEL": "bedrock",
            "REVIEW_MODEL_ID": model,
            "REVIEW_TIMEOUT_S": str(MODEL_TIMEOUT_S),
        }
        module = ["piecework_worker", "--pipelines", EXAMPLE]
        log = self.folder / WORKER_LOGS.replace("w*", name)
        self.workers[name] = start_process(name, module, environment, log)
        return self.workers[name]

    @property
    def active_workers(self) -> list[ChildProcess]:
        """The workers that should be running."""
        return [w for name, w in self.workers.items() if name not in self.stopped]

    def worker_name(self, owner: str) -> str:
        """Return the short name of the worker with this owner id."""
        pid = owner.rpartition("-")[2]
        named = (name for name, w in self.workers.items() if str(w.pid) == pid)
        return next(named, owner)


@contextmanager
def running(
    folder: Path, seed: int, *, keep: bool, calls: int
) -> Iterator[DemoProcesses]:
    """Start the embedded AWS and the services; stop all processes at the end.

    Nothing here is awaited, so that a cancellation cannot come between the start of a
    process and its registration.
    """
    environment = demo_environment(os.environ, folder)
    environment["REVIEW_CALLS"] = str(calls)
    with isolated_environ(environment):
        settings = load_settings()
    started: list[ChildProcess] = []
    processes: DemoProcesses | None = None
    try:
        services = start_services(folder, seed, environment)
        started.append(services)
        emulator = up(settings.app, settings.env, folder)
        processes = DemoProcesses(folder, environment, emulator, services)
        with isolated_environ(environment):
            yield processes
    finally:
        kill_all(
            [*(processes.workers.values() if processes is not None else ()), *started]
        )
        if processes is None or not keep:
            down(folder)


def start_services(
    folder: Path, seed: int, environment: dict[str, str]
) -> ChildProcess:
    """Start the stub of the model and the add-in with its ledger."""
    options = {
        "--port": "0",
        "--state": str(folder / "services.json"),
        "--seed": str(seed),
        "--fault-rate": str(FAULT_RATE),
        "--latency": str(LATENCY_S),
        "--faulty-tries": "2",
        "--retry-after": "1",
        "--hang": "60",
    }
    words = [word for option in options.items() for word in option]
    module = [f"{EXAMPLE}.services", *words]
    log = folder / "services.log"
    return start_process("services", module, environment, log, listen=True)


# ── error that stops the demo early ───────────────────────────────────────────


class DemoError(Exception):
    """A step of the demo failed; the message names the step."""


# ── environment of the demo's processes ───────────────────────────────────────

#: The leases are short, so that a newcomer does not wait a minute for the takeover. Few
#: chunks and calls run at once, so that there is something to see.
DEMO_SETTINGS = {
    "PIECEWORK_LEASE_S": "3",
    "PIECEWORK_VISIBILITY_S": "5",
    "PIECEWORK_CLOCK_SKEW_S": "0.5",
    "PIECEWORK_RECONCILE_S": "0.5",
    "PIECEWORK_RECEIVE_WAIT_S": "1",
    "PIECEWORK_SHUTDOWN_GRACE_S": "5",
    "PIECEWORK_MAX_CHUNKS": "3",
    "PIECEWORK_MAX_CALLS_IN_FLIGHT": "6",
}
#: The SDK must sign with some keys, and must not find the user's.
NO_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "demo",
    "AWS_SECRET_ACCESS_KEY": "demo",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "NO_PROXY": "*",
}
DROPPED_PREFIXES = ("AWS_", "PIECEWORK_", "REVIEW_")
KEPT_VARIABLES = ("PIECEWORK_CACHE_DIR",)


def demo_environment(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the environment of the demo's own embedded AWS."""
    rest = {
        name: value
        for name, value in environ.items()
        if name in KEPT_VARIABLES
        or not (name.startswith(DROPPED_PREFIXES) or name.lower().endswith("_proxy"))
    }
    return {
        **rest,
        **NO_CREDENTIALS,
        **DEMO_SETTINGS,
        "PIECEWORK_STATE_DIR": str(folder),
    }


@contextmanager
def isolated_environ(environment: Mapping[str, str]) -> Iterator[None]:
    """Replace the environment variables of this process within the block."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
