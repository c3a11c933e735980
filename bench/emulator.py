"""Start, read and stop a counting AWS server; each run has a new one.

`models` serves the simulator's models over HTTP. `ministack` is the embedded AWS behind
a counting proxy.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Literal, TypeAlias, get_args
from urllib.parse import urlsplit

from bench.aws_server import resources
from bench.meter import Counts
from bench.processes import ROOT, start, stat_of
from piecework.aws.endpoint import Emulator
from piecework_orchestrator.embedded import deploy, environment, server
from piecework_orchestrator.embedded.deploy import ACCESS_KEY

Kind: TypeAlias = Literal["models", "ministack"]
KINDS: tuple[Kind, ...] = get_args(Kind)
REGION = "us-east-1"
#: Maximum seconds of a start on a busy machine.
STARTUP_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class RunningAwsServer:
    """A running AWS server that counts requests."""

    emulator: Emulator
    kind: Kind

    @property
    def environment(self) -> dict[str, str]:
        """The variables that direct a process to this server, not to an account."""
        return {
            "AWS_ENDPOINT_URL": self.emulator.endpoint,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": ACCESS_KEY,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    @property
    def cpu_s(self) -> float:
        """Seconds of CPU that it has used."""
        return stat_of(self.emulator.pid).cpu

    def deploy(self, app: str, env: str) -> None:
        """Create the resources of Piecework's data stack."""
        into = resources.into if self.kind == "models" else deploy.deploy_embedded
        into(self.emulator, app, env)

    def counts(self) -> Counts:
        """Return the counts so far; wait while the server starts."""
        where = urlsplit(self.emulator.endpoint)
        host, port = where.hostname or "", where.port
        connection = HTTPConnection(host, port, timeout=STARTUP_TIMEOUT_S)
        try:
            connection.request("GET", "/_bench")
            return Counts.read(json.loads(connection.getresponse().read()))
        finally:
            connection.close()


@contextmanager
def run_server(folder: Path, kind: Kind) -> Iterator[RunningAwsServer]:
    """Run an AWS server inside the context."""
    with socket.create_server((server.LOOPBACK, 0), backlog=512) as listener:
        port = int(listener.getsockname()[1])
        command, environ = server_command(kind, listener.fileno(), port)
        group = start(
            command, environ, folder / "emulator.log", pass_fds=[listener.fileno()]
        )
    try:
        endpoint = f"http://{server.LOOPBACK}:{port}"
        aws = RunningAwsServer(
            Emulator(endpoint, group.process.pid, REGION, kind), kind
        )
        aws.counts()
        yield aws
    finally:
        group.stop()


def server_command(
    kind: Kind, listener: int, port: int
) -> tuple[list[str], dict[str, str]]:
    """Return the command that starts one, and its environment."""
    kept = ("HOME", "LANG", "PATH", "TMPDIR")
    bare = {name: os.environ[name] for name in kept if name in os.environ}
    if kind == "models":
        command = [sys.executable, "-m", "bench.aws_server", "--fd", str(listener)]
        return command, bare
    python = environment.ensure_environment(report=say)
    # Like the product's own start, with the counting proxy in front.
    serve = [str(python), "-m", "hypercorn", "bench.proxy:app", "--workers", "0"]
    quiet = ["--keep-alive", "75", "--graceful-timeout", "0", "--log-level", "WARNING"]
    environ = server.server_environment(port, REGION, server.SERVICES)
    own = {**environ, "PYTHONPATH": str(ROOT)}
    return [*serve, "--bind", f"fd://{listener}", *quiet], own


def say(line: str) -> None:
    """Print a line for the user."""
    sys.stderr.write(f"{line}\n")
