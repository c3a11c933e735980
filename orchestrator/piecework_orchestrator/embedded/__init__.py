"""Start, find and stop an AWS emulator on this machine, without account or container.

MiniStack runs as a separate process in its own Python environment, because it pins
another version of botocore. It keeps all data in memory: `down` deletes the data.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

from piecework.aws.endpoint import Emulator, read_state
from piecework.domain import keys
from piecework_orchestrator.embedded import deploy, environment, server
from piecework_orchestrator.embedded import server as state
from piecework_orchestrator.embedded.deploy import make_client
from piecework_orchestrator.embedded.server import find, refuse_remote

__all__ = ["Emulator", "count_active_jobs", "down", "find", "up"]

REGION = "us-east-1"


def _print_to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def up(
    app: str,
    env: str,
    state_dir: Path | None = None,
    *,
    region: str = REGION,
    port: int = 0,
    report: Callable[[str], None] = _print_to_stderr,
) -> Emulator:
    """Start the emulator and deploy the data stack of `app` and `env` into it.

    A second call changes nothing: it keeps a running emulator and an existing stack.
    With `port` 0 the system chooses a free port.

    Raises:
        UsageError: `embedded.endpoint.not_loopback`, `embedded.state.unreadable`,
            `embedded.port.in_use`.
        UnreachableError: `embedded.environment.install_failed`,
            `embedded.server.not_healthy`, `embedded.deploy.failed`.
    """
    refuse_remote(os.environ)
    folder = state.resolve_folder(state_dir)
    with state.lock(folder):
        emulator = read_state(folder)
        if emulator is None or not server.is_our_server(emulator.pid, folder):
            python = environment.ensure_environment(report=report)
            server.stop_untracked(folder)
            key = f"embedded{secrets.token_hex(12)}"
            emulator = server.start(python, folder, region, port=port, key=key)
            state.write(folder, emulator)
        deploy.deploy_embedded(emulator, app, env)
    return emulator


def count_active_jobs(emulator: Emulator) -> int:
    """Return the number of jobs that have not ended; 0 if the emulator is gone."""
    from botocore.exceptions import BotoCoreError

    dynamodb = make_client("dynamodb", emulator)
    try:
        return sum(
            dynamodb.query(
                TableName=table,
                KeyConditionExpression="pk = :active",
                ExpressionAttributeValues={":active": {"S": keys.ACTIVE_PK}},
                Select="COUNT",
            )["Count"]
            for table in dynamodb.list_tables()["TableNames"]
            if table.endswith("-checkpoints")
        )
    except BotoCoreError:
        return 0
    finally:
        dynamodb.close()


def down(state_dir: Path | None = None) -> Emulator | None:
    """Stop the emulator and remove its state; return None if there was none."""
    refuse_remote(os.environ)
    folder = state.resolve_folder(state_dir)
    if not folder.is_dir():
        return None
    with state.lock(folder):
        emulator = read_state(folder)
        if emulator is not None:
            refuse_remote({"AWS_ENDPOINT_URL": emulator.endpoint})
            server.stop(emulator.pid, folder)
            state.remove(folder)
        server.stop_untracked(folder)
    return emulator
