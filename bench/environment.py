"""Provide the environment of a run: an AWS server, a folder and a configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bench import emulator
from bench.emulator import Kind, RunningAwsServer
from bench.ledger import LedgerReader
from bench.meter import Counts
from bench.processes import Group
from bench.rivals.protocol import Config


@dataclass(frozen=True, slots=True)
class BenchEnvironment:
    """The environment of one run, for the adapter and the measurement."""

    aws: RunningAwsServer
    folder: Path
    config: Config
    ledger: LedgerReader = field(init=False)

    def __post_init__(self) -> None:
        """Write the configuration down, where the processes find it."""
        object.__setattr__(self, "ledger", LedgerReader(Path(self.config.ledger)))
        self.config_file.write_text(json.dumps(asdict(self.config)), encoding="utf-8")

    @property
    def config_file(self) -> Path:
        """The path of the configuration."""
        return self.folder / "config.json"

    def counts(self) -> Counts:
        """Return the AWS request counts so far."""
        return self.aws.counts()

    def environment(self, **more: str) -> Mapping[str, str]:
        """Return the environment of a process of this run, without the user's AWS."""
        return {**kept_environment(), **self.aws.environment, **more}


def kept_environment() -> dict[str, str]:
    """Return the environment of this process without the user's AWS."""
    left_out = ("AWS_", "PIECEWORK_", "PYTHON")
    return {n: each for n, each in os.environ.items() if not n.startswith(left_out)}


class Adapter(Protocol):
    """The interface of a measured system: Piecework, or a rival."""

    @property
    def name(self) -> str:
        """The name in tables."""

    def setup(self) -> None:
        """Create the system's resources."""

    def enqueue(self) -> Mapping[str, float]:
        """Submit all tasks; return `submitted`, `seconds` and the time it `ended`."""

    def work(self) -> Group:
        """Start one worker process."""

    def ready(self) -> bool:
        """Return whether a worker consumes messages."""

    def settled(self) -> bool:
        """Return whether all completed work is also recorded."""

    def ended(self, seen: float) -> float:
        """Return the time of completion, given the time when `settled` was observed."""

    def server_cpu_s(self) -> float:
        """Return the CPU of the system's own server; 0 if it only uses AWS."""

    def teardown(self) -> None:
        """Remove the created resources."""


@contextmanager
def open_environment(
    config: Mapping[str, Any], folder: Path, kind: Kind
) -> Iterator[BenchEnvironment]:
    """Run an AWS server and configure one run; `Config` defines the fields."""
    with emulator.run_server(folder, kind) as aws:
        places = {
            "endpoint": aws.emulator.endpoint,
            "region": emulator.REGION,
            "ledger": str(folder / "ledger"),
            "queue": f"bench-{folder.name}",
            "table": f"bench-{folder.name}",
            "run": folder.name,
        }
        yield BenchEnvironment(aws, folder, Config(**{**config, **places}))
