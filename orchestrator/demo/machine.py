"""Everything that runs for the demo: embedded AWS, model and add-in, workers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.demo import children
from orchestrator.demo.children import Child
from orchestrator.demo.surroundings import only, surroundings
from orchestrator.embedded import Emulator, down, up
from piecework.settings import load_settings

EXAMPLE = "examples.contract_review"
SMALL_MODEL = "anthropic.small-review-v1:0"
LARGE_MODEL = "anthropic.large-review-v1:0"
#: Seconds that the model takes for an answer, and after which a worker gives up.
LATENCY_S = 0.25
TIMEOUT_S = 3
FAULT_RATE = 0.05
WORKER_LOGS = "w*.jsonl"


@dataclass(slots=True)
class Machine:
    """What runs.

    Attributes:
        folder: Holds the state of the embedded AWS, and all logs.
        urls: Where the services are, once they have said so.
        dismissed: The names of workers that were killed or told to stop.
    """

    folder: Path
    environment: dict[str, str]
    emulator: Emulator
    services: Child
    urls: dict[str, str] = field(default_factory=dict)
    workers: dict[str, Child] = field(default_factory=dict)
    dismissed: set[str] = field(default_factory=set)

    async def listen(self) -> None:
        """Wait until the services say where they are."""
        self.urls = json.loads(await self.services.first_line())

    def start_worker(self, model: str) -> Child:
        """Start one more worker, whose calls go to that model."""
        name = f"w{len(self.workers) + 1}"
        environment = {
            **self.environment,
            "PIECEWORK_LOG_LEVEL": "debug",
            "AWS_DEFAULT_REGION": self.emulator.region,
            "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": self.urls["bedrock"],
            "REVIEW_ADDIN_URL": self.urls["addin"],
            "REVIEW_MODEL": "bedrock",
            "REVIEW_MODEL_ID": model,
            "REVIEW_TIMEOUT_S": str(TIMEOUT_S),
        }
        module = ["workers", "--pipelines", EXAMPLE]
        log = self.folder / WORKER_LOGS.replace("w*", name)
        self.workers[name] = children.start(name, module, environment, log)
        return self.workers[name]

    @property
    def at_work(self) -> list[Child]:
        """The workers that are meant to be running."""
        return [w for name, w in self.workers.items() if name not in self.dismissed]

    def name_of(self, owner: str) -> str:
        """Return the short name of the worker that signs its claims so."""
        pid = owner.rpartition("-")[2]
        named = (name for name, w in self.workers.items() if str(w.pid) == pid)
        return next(named, owner)


@contextmanager
def running(folder: Path, seed: int, *, keep: bool) -> Iterator[Machine]:
    """Start the embedded AWS and the services; end all that was started.

    Nothing in here is awaited, so that no cancel can come between a process and
    the note of it.
    """
    environment = surroundings(os.environ, folder)
    with only(environment):
        settings = load_settings()
    started: list[Child] = []
    machine: Machine | None = None
    try:
        services = start_services(folder, seed, environment)
        started.append(services)
        emulator = up(settings.app, settings.env, folder)
        machine = Machine(folder, environment, emulator, services)
        with only(environment):
            yield machine
    finally:
        children.end(
            [*(machine.workers.values() if machine is not None else ()), *started]
        )
        if machine is None or not keep:
            down(folder)


def start_services(folder: Path, seed: int, environment: dict[str, str]) -> Child:
    """Start the stand-in for the model, and the add-in with its books."""
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
    return children.start("services", module, environment, log, listen=True)
