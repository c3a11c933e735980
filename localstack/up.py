"""Start LocalStack with the data stack in it, a worker and a reconciler.

    python localstack/up.py                start all of it, print the exports
    python localstack/up.py --no-start     deploy into what already listens
    python localstack/up.py --conformance  start LocalStack alone, and put every probe
                                           of the conformance suite to it

`AWS_ENDPOINT_URL`, or else `LOCALSTACK_HOST`, says where it listens; the default is
127.0.0.1:4566.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError
from localstack_client.config import get_service_endpoint
from localstack_client.session import Session

from piecework.errors import PieceworkError, UnreachableError
from piecework.settings import load_settings
from piecework_orchestrator.embedded.deploy import deploy_data_stack
from piecework_orchestrator.embedded.server import refuse_remote

REGION = "us-east-1"
COMPOSE = Path(__file__).with_name("compose.yaml")
ENGINE = ["docker", "version", "--format", "{{.Server.Version}}"]
PATIENCE_S = 60


def main(arguments: list[str]) -> int:
    """Bring LocalStack up with the data stack in it."""
    endpoint = str(get_service_endpoint("cloudformation"))
    try:
        refuse_remote({"AWS_ENDPOINT_URL": endpoint})
        if "--conformance" in arguments:
            return conformance(endpoint)
        if "--no-start" not in arguments:
            start()
        fill()
    except PieceworkError as error:
        print(f"{error.code}: {error}\nnext: {error.next_step}", file=sys.stderr)
        return error.exit_code
    print(f"export AWS_ENDPOINT_URL={endpoint}")
    print(f"export AWS_REGION={REGION} AWS_DEFAULT_REGION={REGION}")
    print("export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test")
    return 0


def conformance(endpoint: str) -> int:
    """Probe LocalStack; without a container engine, print that and return."""
    if why := no_engine():
        print(f"skipped: {why}")
        return 0
    start("localstack")
    probes = ["-m", "verification.conformance", "--only", "model", "--only", "endpoint"]
    environment = {**os.environ, "PIECEWORK_CONFORMANCE_ENDPOINT": endpoint}
    return subprocess.run(
        [sys.executable, *probes], check=False, env=environment, cwd=COMPOSE.parents[1]
    ).returncode


def no_engine() -> str:
    """Say why no container engine can be used; nothing: one answers."""
    try:
        subprocess.run(ENGINE, check=True, capture_output=True, timeout=PATIENCE_S)
    except FileNotFoundError:
        return "docker is not installed"
    except (OSError, subprocess.SubprocessError):
        return "no container engine answers"
    return ""


def start(*services: str) -> None:
    """Have the container engine start them, and wait for their health checks."""
    if why := no_engine():
        raise not_started(why)
    compose = ["docker", "compose", "-f", str(COMPOSE), "up", "-d", "--wait", "--build"]
    try:
        subprocess.run([*compose, *services], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise not_started(str(error)) from error


def not_started(why: str) -> UnreachableError:
    """Return the error of a LocalStack that did not start."""
    return UnreachableError(
        f"LocalStack was not started: {why}",
        code="embedded.server.not_healthy",
        next_step="start a container engine with compose, or use `piecework up`",
    )


def fill() -> None:
    """Deploy the data stack; where the ready hook did it, there is nothing to do."""
    settings = load_settings()
    client = Session(region_name=REGION).client(
        "cloudformation", config=Config(proxies={})
    )
    wait(client)
    deploy_data_stack(client, settings.app, settings.env)


def wait(client: Any) -> None:
    """Ask until CloudFormation answers."""
    for _ in range(PATIENCE_S):
        try:
            client.list_stacks()
        except BotoCoreError:
            time.sleep(1)
        else:
            return
    raise UnreachableError(
        f"Nothing answered within {PATIENCE_S} s.",
        code="embedded.server.not_healthy",
        next_step="docker compose -f localstack/compose.yaml logs",
    )


if __name__ == "__main__":
    os.environ.setdefault("LOCALSTACK_HOST", "127.0.0.1:4566")
    sys.exit(main(sys.argv[1:]))
