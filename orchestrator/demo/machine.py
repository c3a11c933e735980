"""Start and stop the demo's processes: embedded AWS, services and workers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.demo import children
from orchestrator.demo.children import ChildProcess
from orchestrator.demo.surroundings import demo_environment, isolated_environ
from orchestrator.embedded import Emulator, down, up
from piecework.settings import load_settings

EXAMPLE = "examples.contract_review"
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
        module = ["workers", "--pipelines", EXAMPLE]
        log = self.folder / WORKER_LOGS.replace("w*", name)
        self.workers[name] = children.start_process(name, module, environment, log)
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
def running(folder: Path, seed: int, *, keep: bool) -> Iterator[DemoProcesses]:
    """Start the embedded AWS and the services; stop all processes at the end.

    Nothing here is awaited, so that a cancellation cannot come between the start of a
    process and its registration.
    """
    environment = demo_environment(os.environ, folder)
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
        children.kill_all(
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
    return children.start_process("services", module, environment, log, listen=True)
