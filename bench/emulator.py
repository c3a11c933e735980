"""The embedded AWS with a counter at its door, new for each run: start, read, stop."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from bench.counts import Counts
from bench.processes import stat_of
from orchestrator.embedded import environment, server
from orchestrator.embedded.client import ACCESS_KEY
from piecework.endpoint import Emulator

HERE = Path(__file__).parent
REGION = "us-east-1"
#: The longest that a start may take, on a machine that is busy.
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Aws:
    """An emulator that runs, and counts."""

    emulator: Emulator

    @property
    def environment(self) -> dict[str, str]:
        """What points a process at it, and at nobody's account."""
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

    def counts(self) -> Counts:
        """Return what was asked of it so far."""
        where = urlsplit(self.emulator.endpoint)
        connection = HTTPConnection(where.hostname or "", where.port, timeout=30)
        try:
            connection.request("GET", "/_bench")
            return Counts.read(json.loads(connection.getresponse().read()))
        finally:
            connection.close()


@contextmanager
def running(folder: Path) -> Iterator[Aws]:
    """Run an emulator as long as this lasts."""
    python = environment.ensure(say=say)
    with socket.create_server((server.LOOPBACK, 0), backlog=512) as listener:
        port = int(listener.getsockname()[1])
        with (folder / "emulator.log").open("wb") as log:
            process = subprocess.Popen(
                command(python, listener.fileno()),
                env=surroundings(port),
                pass_fds=[listener.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    try:
        endpoint = f"http://{server.LOOPBACK}:{port}"
        version = server.health(endpoint, PATIENCE_S)
        yield Aws(Emulator(endpoint, process.pid, REGION, version))
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def say(line: str) -> None:
    """Tell the person who waits."""
    sys.stderr.write(f"{line}\n")


def command(python: Path, listener: int) -> list[str]:
    """Return how it is started: as the product does, but behind the door."""
    serve = [str(python), "-m", "hypercorn", "door:app", "--workers", "0"]
    quiet = ["--keep-alive", "75", "--graceful-timeout", "0", "--log-level", "WARNING"]
    return [*serve, "--bind", f"fd://{listener}", *quiet]


def surroundings(port: int) -> dict[str, str]:
    """Return the product's own environment of an emulator, and the door's."""
    return {
        **server.surroundings(port, REGION, server.SERVICES),
        "PYTHONPATH": str(HERE),
    }
