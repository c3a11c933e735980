"""One world of the drill: AWS, the service, the two versions of the worker.

AWS is the model that `piecework dev` serves: the workers are true processes, and reach
it over HTTP.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from piecework.aws.endpoint import DEFAULT_REGION
from piecework.runtime import EMBEDDED_ACCOUNT, Runtime
from piecework.settings import Settings, from_environment
from piecework_simulation.aws_server.server import serve_aws
from piecework_simulation.in_process import InProcessAws
from verification.deployments.changes import Deployment
from verification.deployments.service import Service, serving

ROOT = Path(__file__).parents[2]
KEY = "drill"
#: Short, so that it fits; their relations are the real ones. An answer is in the
#: journal before its stage goes on, so that no wait decides whether a kill loses it.
PACE = {
    "PIECEWORK_JOURNAL_PAGE": "1",
    "PIECEWORK_CLOCK_SKEW_S": "0.5",
    "PIECEWORK_RECONCILE_S": "1",
    "PIECEWORK_REDISPATCH_S": "20",
    "PIECEWORK_RECEIVE_WAIT_S": "1",
    "PIECEWORK_SHUTDOWN_GRACE_S": "1",
    "PIECEWORK_MAX_CHUNKS": "1000",
    "PIECEWORK_MAX_CALLS_IN_FLIGHT": "1000",
    "PIECEWORK_MAX_ATTEMPTS": "9",
    "PIECEWORK_LOG_LEVEL": "info",
}
#: A lease that no other worker waits for is long. A busy machine loses none, and a
#: chunk that has stopped waits for half of it: no suspect that has not run yet
#: waits for one that has stopped already.
LONG = {"PIECEWORK_LEASE_S": "300", "PIECEWORK_VISIBILITY_S": "330"}
#: The leases of a version that is killed must end soon. Side by side, one version goes
#: on soon with what the other one stops.
SHORT = {"PIECEWORK_LEASE_S": "20", "PIECEWORK_VISIBILITY_S": "25"}


@dataclass(slots=True)
class Fleet:
    """The processes of a world, and what they share.

    Attributes:
        folder: Has the modules of each version, and the logs.
        leases: The settings of the leases of each version.
    """

    folder: Path
    service: Service
    rt: Runtime
    environment: Mapping[str, str]
    leases: Mapping[str, Mapping[str, str]]
    running: list[Process] = field(default_factory=list)

    async def worker(self, version: str, modules: Sequence[str]) -> Process:
        """Start a worker of a version, with a reconciler; return once it works."""
        code = self.folder / f"v{version}"
        own = {
            **self.leases[version],
            "PIECEWORK_CODE_VERSION": version,
            "PYTHONPATH": os.pathsep.join([str(code), str(ROOT)]),
        }
        named = [word for module in modules for word in ("--pipelines", module)]
        path = self.folder / f"v{version}.log"
        with path.open("ab") as log:
            started = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "piecework_worker", *named),
                cwd=code,
                env={**self.environment, **own},
                stderr=log,
            )
        self.running.append(started)
        while b"worker.started" not in path.read_bytes():
            if started.returncode is not None:
                raise RuntimeError(path.read_text("utf-8"))
            await asyncio.sleep(0.1)
        return started

    async def end(self, process: Process, how: signal.Signals) -> None:
        """End a worker by a signal, and wait for its end."""
        if process.returncode is None:
            process.send_signal(how)
        await process.wait()


@asynccontextmanager
async def world(
    folder: Path, found: Sequence[Deployment], *, is_killed: bool, is_beside: bool
) -> AsyncIterator[Fleet]:
    """Serve AWS and the service; end all processes that were started."""
    leases = {
        "1": SHORT if is_killed or is_beside else LONG,
        "2": SHORT if is_beside else LONG,
    }
    for row in found:
        write(folder / "v1", row.module, row.before, {})
        write(folder / "v2", row.module, row.after, {})
        for each in ("v1", "v2"):
            write(folder / each, row.module, None, row.parts)
    submits = {**PACE, **leases["1"], "PIECEWORK_CODE_VERSION": "1"}
    settings = Settings(**from_environment(submits))
    aws = InProcessAws(settings, settings.bucket(EMBEDDED_ACCOUNT, DEFAULT_REGION))
    async with (
        serve_aws(aws, KEY) as endpoint,
        serving(is_beside=is_beside) as (service, address),
    ):
        rest = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AWS_", "PIECEWORK_"))
        }
        environment = {
            **rest,
            **PACE,
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_DEFAULT_REGION": DEFAULT_REGION,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": KEY,
            "DRILL_SERVICE": address,
        }
        fleet = Fleet(folder, service, aws.runtime(), environment, leases)
        try:
            yield fleet
        finally:
            service.second.set()
            for process in fleet.running:
                await fleet.end(process, signal.SIGKILL)


def write(
    folder: Path, module: str, text: str | None, parts: Mapping[str, str]
) -> None:
    """Write a module of a version, and its parts."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {**({} if text is None else {module: text}), **parts}.items():
        (folder / f"{name}.py").write_text(content, "utf-8")
