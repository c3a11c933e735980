"""Start, find and stop an AWS emulator on this machine, without account or container.

MiniStack runs as a separate process in its own Python environment, because it pins
another version of botocore. It keeps all data in memory: `down` deletes the data.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from piecework.aws.endpoint import (
    ENDPOINT_VARIABLES,
    IN_PROCESS,
    Emulator,
    read_state,
)
from piecework.domain import keys
from piecework.errors import UsageError
from piecework_orchestrator.embedded import deploy, environment, server
from piecework_orchestrator.embedded import server as state
from piecework_orchestrator.embedded.deploy import make_client
from piecework_orchestrator.embedded.server import find, refuse_remote

__all__ = [
    "Emulator",
    "announce",
    "count_active_jobs",
    "down",
    "find",
    "new_key",
    "refuse_beside_dev",
    "started",
    "up",
]

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
    queues: Collection[str] = (),
    report: Callable[[str], None] = _print_to_stderr,
) -> Emulator:
    """Start the emulator and deploy the data stack of `app` and `env` into it.

    A second call keeps a running emulator and an existing stack. It only adds the
    queues of pipelines that are missing. With `port` 0 the system chooses a free port.

    Raises:
        UsageError: `embedded.endpoint.not_loopback`, `embedded.state.unreadable`,
            `embedded.port.in_use`, `embedded.state.in_use`,
            `embedded.queues.too_many`.
        UnreachableError: `embedded.environment.install_failed`,
            `embedded.server.not_healthy`, `embedded.deploy.failed`.
    """
    refuse_remote(os.environ)
    folder = state.resolve_folder(state_dir)
    with state.lock(folder):
        emulator = read_state(folder)
        refuse_beside_dev(emulator)
        if emulator is None or not is_alive(emulator, folder):
            if emulator is not None:
                report(
                    f"the earlier embedded AWS (process {emulator.pid}) has died: "
                    "its jobs, results and queues are gone"
                )
            python = environment.ensure_environment(report=report)
            server.stop_untracked(folder)
            report(f"starting MiniStack {environment.VERSION}")
            emulator = server.start(python, folder, region, port=port, key=new_key())
            state.write(folder, emulator)
        deploy.deploy_embedded(emulator, app, env, queues)
    return emulator


def is_alive(emulator: Emulator, folder: Path) -> bool:
    """Return whether its process is visible, or else whether it answers."""
    return server.is_our_server(emulator.pid, folder) or server.answers(emulator)


def count_active_jobs(emulator: Emulator) -> int:
    """Return the number of jobs that have not ended; 0 if the emulator is gone."""
    from botocore.exceptions import BotoCoreError

    if not server.answers(emulator):
        return 0
    dynamodb = make_client("dynamodb", emulator)
    try:
        return sum(
            keys.job_of_active_sk(row["sk"]["S"]) is not None
            for table in dynamodb.list_tables()["TableNames"]
            if table.endswith("-checkpoints")
            for row in dynamodb.query(
                TableName=table,
                KeyConditionExpression="pk = :active",
                ExpressionAttributeValues={":active": {"S": keys.ACTIVE_PK}},
                ProjectionExpression="sk",
            )["Items"]
        )
    except BotoCoreError:
        return 0
    finally:
        dynamodb.close()


def down(state_dir: Path | None = None) -> Emulator | None:
    """Stop the emulator and remove its state; return None if there was none.

    Raises:
        UsageError: `embedded.endpoint.not_loopback`, `embedded.state.in_use`.
    """
    refuse_remote(os.environ)
    folder = state.resolve_folder(state_dir)
    if not folder.is_dir():
        return None
    with state.lock(folder):
        emulator = read_state(folder)
        refuse_beside_dev(emulator)
        if emulator is not None:
            server.stop(emulator.pid, folder)
            if server.answers(emulator):
                message = f"Process {emulator.pid} does not serve {emulator.endpoint}."
                step = "End the embedded AWS where it was started, as in a container."
                raise UsageError(message, code="embedded.state.in_use", next_step=step)
            state.remove(folder)
        server.stop_untracked(folder)
    return emulator


def new_key() -> str:
    """Return an access key, by which a server knows the commands of its user."""
    return f"embedded{secrets.token_hex(12)}"


@contextmanager
def started(
    app: str,
    env: str,
    queues: Collection[str] = (),
    *,
    report: Callable[[str], None] = _print_to_stderr,
) -> Iterator[None]:
    """Use the emulator of this folder in the caller's block, or one of its own.

    Its own one has a temporary folder, so no other command comes to use it.

    Raises:
        UsageError, UnreachableError: As `up`; `cli.usage.invalid`: a variable names
            another endpoint, which would be used instead.
    """
    for name in ENDPOINT_VARIABLES:
        if os.environ.get(name):
            message = f"{name} is set, so the embedded AWS would not be used."
            raise UsageError(message, next_step=f"Unset {name}.")
    if (other := find()) and server.answers(other):
        up(app, env, queues=queues, report=report)
        yield
        return
    before = dict(os.environ)
    with TemporaryDirectory(prefix="piecework-") as folder:
        os.environ["PIECEWORK_STATE_DIR"] = folder
        try:
            up(app, env, queues=queues, report=report)
            yield
        finally:
            down()
            os.environ.clear()
            os.environ.update(before)


@contextmanager
def announce(
    endpoint: str, key: str, state_dir: Path | None = None, *, run_line: str = ""
) -> Iterator[None]:
    """Let the commands of this folder use the AWS that this process serves.

    Afterwards it is removed, unless another program has files in it. `run_line`: as
    that of `Emulator`.

    Raises:
        UsageError: `embedded.state.in_use`, `embedded.state.unreadable`.
    """
    folder = state.resolve_folder(state_dir)
    own = Emulator(endpoint, os.getpid(), REGION, IN_PROCESS, key, run_line)
    with state.lock(folder):
        other = read_state(folder)
        refuse_beside_dev(other)
        if other is not None and is_alive(other, folder):
            message = f"`piecework up` started an embedded AWS for {folder.parent}."
            step = "End it: piecework down"
            raise UsageError(message, code="embedded.state.in_use", next_step=step)
        state.write(folder, own)
    try:
        yield
    finally:
        with state.lock(folder):
            if read_state(folder) == own:
                state.remove(folder)
                state.remove_folder(folder)


def refuse_beside_dev(emulator: Emulator | None) -> None:
    """Raise if `piecework dev` serves the folder.

    Raises:
        UsageError: `embedded.state.in_use`.
    """
    if emulator is None or emulator.version != IN_PROCESS:
        return
    # One that is stopped or blocked does not answer.
    command = server.command_line(emulator.pid)
    if server.DEV_MODULE in command or server.answers(emulator):
        message = f"`piecework dev` runs in this folder (process {emulator.pid})."
        step = "End it with Ctrl-C, or submit to it: piecework submit"
        raise UsageError(message, code="embedded.state.in_use", next_step=step)
