"""Adapt Piecework to the bench: the real submit and workers, until the job ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from bench import meter
from bench.environment import BenchEnvironment
from bench.processes import Group, run, start
from piecework.domain import keys

APP, ENV = "piecework", "bench"
TENANT = "default"
TABLE = f"{APP}-{ENV}-checkpoints"
OPEN = frozenset({"SUBMITTING", "RUNNING", "FINALIZING", "CANCELLING", "REOPENING"})


@dataclass
class PieceworkAdapter:
    """One job of Piecework, or several.

    Attributes:
        processes: The processes of a worker.
        pipeline: One of `bench.pipelines`; empty: that of the workload.
    """

    env: BenchEnvironment
    name: str = "piecework"
    jobs: list[str] = field(default_factory=lambda: ["job-1"])
    settings: Mapping[str, str] = field(default_factory=dict)
    processes: int = 1
    pipeline: str = ""

    def setup(self) -> None:
        """Deploy the data stack, and write the manifest."""
        self.env.aws.deploy(APP, ENV)
        lines = "".join(f'{{"n":{n}}}\n' for n in range(self.chunks))
        self.manifest.write_text(lines, encoding="ascii")
        self.settled()  # its client is made now, and not in a time that is measured

    @property
    def chunks(self) -> int:
        """The chunks of a job."""
        config = self.env.config
        return len(config.tasks)

    @property
    def manifest(self) -> Path:
        """The path of the manifest."""
        return self.env.folder / "manifest.jsonl"

    @property
    def log(self) -> Path:
        """The log file of the workers."""
        return self.env.folder / "worker.log"

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of the processes."""
        config = self.env.config
        return self.env.environment(
            BENCH_CONFIG=str(self.env.config_file),
            PIECEWORK_APP=APP,
            PIECEWORK_ENV=ENV,
            PIECEWORK_MAX_CHUNKS=str(min(config.concurrency, self.chunks + 1)),
            PIECEWORK_MAX_CALLS_IN_FLIGHT=str(config.concurrency),
            # The measurement is over; do not wait for the rest.
            PIECEWORK_SHUTDOWN_GRACE_S="1",
            **lease(config.visibility_s),
            **self.settings,
        )

    def enqueue(self) -> Mapping[str, float]:
        """Submit the manifest in a separate process."""
        usual = "calling" if self.env.config.workload == "W2b" else "plain"
        pipeline = self.pipeline or usual
        module = [sys.executable, "-m", "bench.submitting"]
        command = [*module, pipeline, str(self.manifest), *self.jobs]
        said = run(command, self.environment, self.env.folder / "submit.log")
        answer: dict[str, float] = json.loads(said)
        return answer

    def work(self) -> Group:
        """Start a worker, as a user would."""
        module = [sys.executable, "-m", "piecework_worker"]
        command = [*module, "--pipelines", "bench.pipelines"]
        if self.processes > 1:
            command += ["--processes", str(self.processes)]
        return start(command, self.environment, self.log)

    def ready(self) -> bool:
        """Return whether a worker consumes messages."""
        return self.started() > 0

    def started(self) -> int:
        """Return how many processes of workers have started."""
        return self.log.read_text(encoding="utf-8").count("worker.started")

    def settled(self) -> bool:
        """Return whether each job has ended."""
        return all(self.status(job) not in OPEN for job in self.jobs)

    def status(self, job: str) -> str:
        """Return a job's status; this read is not counted."""
        key = {"pk": keys.job_pk(TENANT, job), "sk": keys.META_SK}
        table = table_at(self.env.config.endpoint)
        item = table.get_item(Key=key, ConsistentRead=True).get("Item", {})
        return str(item.get("status", "SUBMITTING"))

    def ended(self, seen: float) -> float:
        """Return when it was through: with its certificate."""
        return seen

    def server_cpu_s(self) -> float:
        """Return 0: apart from the worker, only AWS is used."""
        return 0.0

    def teardown(self) -> None:
        """Remove nothing: the emulator ends with the run."""


@cache
def table_at(endpoint: str) -> Any:
    """Return the table through an uncounted client."""
    import boto3
    from botocore.config import Config

    session = boto3.Session("test", "test", region_name="us-east-1")
    config = Config(user_agent=meter.OBSERVER_AGENT.decode(), proxies={})
    resource = session.resource("dynamodb", endpoint_url=endpoint, config=config)
    return resource.Table(TABLE)


def lease(visibility_s: float) -> dict[str, str]:
    """Return the settings that return a dead worker's chunk within this time.

    The clocks of one machine agree, so there is no extra margin.
    """
    return {
        "PIECEWORK_LEASE_S": str(visibility_s),
        "PIECEWORK_VISIBILITY_S": str(visibility_s + 1),
        "PIECEWORK_CLOCK_SKEW_S": "0.2",
    }
