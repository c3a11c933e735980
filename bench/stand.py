"""Where a run takes place: an AWS, a folder, a configuration, an environment."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bench import emulator
from bench.counts import Counts
from bench.emulator import Kind, RunningAwsServer
from bench.ledger import LedgerReader
from bench.processes import Group
from bench.rivals.protocol import Config


@dataclass(frozen=True, slots=True)
class BenchEnvironment:
    """What a contender is given for one run, and what the driver sees of it."""

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
        """Where the configuration stands."""
        return self.folder / "config.json"

    def counts(self) -> Counts:
        """Return what was asked of AWS so far."""
        return self.aws.counts()

    def environment(self, **more: str) -> Mapping[str, str]:
        """Return the environment of a process of this run, without the user's AWS."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AWS_", "PIECEWORK_", "PYTHON"))
        }
        return {**kept, **self.aws.environment, **more}


class Adapter(Protocol):
    """Who does the work: Piecework, or a rival."""

    @property
    def name(self) -> str:
        """What it is called in tables."""

    def setup(self) -> None:
        """Make what it needs."""

    def enqueue(self) -> Mapping[str, float]:
        """Submit all tasks; tell `submitted`, `seconds`, and when it `ended`."""

    def work(self) -> Group:
        """Start one worker process."""

    def ready(self) -> bool:
        """Say whether a worker consumes."""

    def settled(self) -> bool:
        """Say whether all that was done is also written down."""

    def ended(self, seen: float) -> float:
        """Return when it was through, given when it was seen to have settled."""

    def server_cpu_s(self) -> float:
        """Return the CPU of the server that it stands on; 0: that is AWS."""

    def teardown(self) -> None:
        """Remove what it made."""


@contextmanager
def open_environment(
    config: Mapping[str, Any], folder: Path, kind: Kind
) -> Iterator[BenchEnvironment]:
    """Run a stand-in for one run; a `Config` knows what may be configured."""
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
