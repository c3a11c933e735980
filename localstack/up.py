"""Start LocalStack, wait until it answers, deploy the data stack, print the exports.

    python localstack/up.py               start the container, then deploy
    python localstack/up.py --no-start    deploy into what already listens

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

from orchestrator.embedded.deploy import deploy
from orchestrator.embedded.endpoint import refuse_remote
from piecework.errors import PieceworkError, UnreachableError
from piecework.settings import load_settings

REGION = "us-east-1"
COMPOSE = Path(__file__).with_name("compose.yaml")
PATIENCE_S = 60


def main(arguments: list[str]) -> int:
    """Bring LocalStack up with the data stack in it."""
    settings = load_settings()
    endpoint = str(get_service_endpoint("cloudformation"))
    try:
        refuse_remote({"AWS_ENDPOINT_URL": endpoint})
        if "--no-start" not in arguments:
            start()
        client = Session(region_name=REGION).client(
            "cloudformation", config=Config(proxies={})
        )
        wait(client)
        deploy(client, settings.app, settings.env)
    except PieceworkError as error:
        print(f"{error.code}: {error}\nnext: {error.next_step}", file=sys.stderr)
        return error.exit_code
    print(f"export AWS_ENDPOINT_URL={endpoint}")
    print(f"export AWS_REGION={REGION} AWS_DEFAULT_REGION={REGION}")
    print("export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test")
    return 0


def start() -> None:
    """Have the container engine start it, and wait for its health check."""
    compose = ["docker", "compose", "-f", str(COMPOSE), "up", "-d", "--wait"]
    try:
        subprocess.run(compose, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UnreachableError(
            f"LocalStack was not started: {error}",
            code="embedded.server.not_healthy",
            next_step="start a container engine with compose, or use `piecework up`",
        ) from error


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
