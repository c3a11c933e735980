"""Everything that a soak runs on, but the workers: AWS, faults, the outside world."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import ProxyHandler, Request, build_opener

from piecework import telemetry
from piecework.aws.endpoint import Emulator
from piecework_orchestrator.demo import processes
from piecework_orchestrator.demo.processes import ChildProcess, demo_environment
from piecework_orchestrator.embedded import deploy, environment, server
from piecework_orchestrator.embedded.deploy import ACCESS_KEY
from verification.soak import microburst, tap
from verification.soak.plan import PACE, Plan

APP, ENV = "piecework", "soak"
TABLE = f"{APP}-{ENV}-checkpoints"
LEDGER, ACKS, CHANGES = "ledger.jsonl", "acks.jsonl", "changes.jsonl"
#: When the tap throttled the key of a partition.
THROTTLED = "throttled.jsonl"
#: Read when all is over, and without the faults.
STREAMS = f"{server.SERVICES},dynamodbstreams"


@dataclass(frozen=True, slots=True)
class Site:
    """Where the parts are.

    Attributes:
        folder: Holds all logs, the ledger, and what was recorded.
        environment: What the product's processes see: AWS behind the faults.
        calm: The same without faults, for the observing processes.
    """

    folder: Path
    emulator: Emulator
    environment: dict[str, str]
    calm: dict[str, str]
    faults: str
    tap: str
    provider: str

    def fix(self) -> None:
        """Let the provider succeed where it failed for good."""
        request = Request(f"{self.provider}/fix", b"")  # noqa: S310 -- our own
        build_opener(ProxyHandler({})).open(request, timeout=10).close()


@contextmanager
def started(plan: Plan, folder: Path, latency_s: float) -> Iterator[Site]:
    """Start the parts in a folder; end all that was started."""
    children: list[ChildProcess] = []
    python = environment.ensure_environment(print)
    emulator = server.start(python, folder, "us-east-1", services=STREAMS)
    try:
        deploy.deploy_embedded(emulator, APP, ENV)
        seen = demo_environment(os.environ, folder) | PACE | aws(emulator.endpoint)
        children.append(start_provider(plan, folder, seen, latency_s))
        provider = url_of(children[-1])
        proxy, faults = microburst.start(microburst.ensure(), emulator.endpoint, folder)
        children.append(proxy)
        acks = folder / ACKS
        children.append(tap.start(emulator.endpoint, plan.seed, acks, seen, folder))
        seen |= {"AWS_ENDPOINT_URL_DYNAMODB": url_of(children[-1])}
        children.append(
            tap.start(
                faults, plan.seed, acks, seen, folder, throttled=folder / THROTTLED
            )
        )
        seen |= {"SOAK_PROVIDER": provider, "PIECEWORK_LOG_LEVEL": "info"}
        tapped = url_of(children[-1])
        faulty = aws(faults) | {
            "AWS_ENDPOINT_URL_SQS": tapped,
            "AWS_ENDPOINT_URL_DYNAMODB": tapped,
        }
        yield Site(folder, emulator, seen | faulty, seen, faults, tapped, provider)
    finally:
        processes.kill_all(children)
        server.stop(emulator.pid, folder)


@contextmanager
def own_aws(**variables: str) -> Iterator[Path]:
    """Give this process an embedded AWS of its own; yield the folder of its files.

    `variables` are added to the environment, also of the processes that it starts.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        python = environment.ensure_environment(print)
        emulator = server.start(python, folder, "us-east-1")
        try:
            seen = demo_environment(os.environ, folder) | aws(emulator.endpoint)
            os.environ.clear()
            os.environ.update(seen | variables)
            deploy.deploy_embedded(emulator, APP, ENV)
            telemetry.configure("error")
            yield folder
        finally:
            server.stop(emulator.pid, folder)


def aws(url: str) -> dict[str, str]:
    """Return the variables that say where AWS is."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": ACCESS_KEY,
        "PIECEWORK_APP": APP,
        "PIECEWORK_ENV": ENV,
    }


def start_provider(
    plan: Plan, folder: Path, seen: dict[str, str], latency_s: float
) -> ChildProcess:
    """Start the outside world."""
    options = {"--ledger": folder / LEDGER, "--seed": plan.seed, "--latency": latency_s}
    words = [str(word) for option in options.items() for word in option]
    module = ["verification.soak.provider", *words]
    return processes.start_process(
        "provider", module, seen, folder / "provider.log", listen=True
    )


def url_of(child: ChildProcess) -> str:
    """Read where a service says that it is."""
    line = child.process.stdout.readline() if child.process.stdout else b""
    if not line:
        raise RuntimeError(child.describe_exit())
    return str(json.loads(line)["url"])
