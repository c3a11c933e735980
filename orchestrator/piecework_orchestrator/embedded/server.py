"""Run MiniStack as a process that keeps running after the command that started it."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TextIO
from urllib.parse import urlsplit

from piecework.aws.endpoint import (
    STATE_FILE,
    STATE_FOLDER,
    Emulator,
    is_loopback,
    read_state,
    state_folder,
)
from piecework.errors import UnreachableError, UsageError
from piecework_orchestrator.embedded import guard
from piecework_orchestrator.embedded.guard import HEALTH, KEY_VARIABLE

LOOPBACK = "127.0.0.1"
HEALTH_S = 20.0
TAIL_LINES = 12
LOCK_FILE, IGNORE_FILE, LOG_FILE = "emulator.lock", ".gitignore", "emulator.log"
#: What stays in a state folder without an emulator.
REMAINS = {LOCK_FILE, IGNORE_FILE, LOG_FILE}
#: Process information on Linux; other systems use `ps`.
PROC = Path("/proc")
#: The guard and MiniStack behind it, as the server's command line names them.
APPLICATION = f"{guard.__file__}:load()"
#: The program that `piecework dev` becomes.
DEV_MODULE = "piecework_simulation.dev_command"
SERVICES = "cloudformation,dynamodb,s3,sqs,sts"


def start(
    python: Path,
    state_dir: Path,
    region: str,
    *,
    services: str = SERVICES,
    health_s: float = HEALTH_S,
    port: int = 0,
    key: str = "",
) -> Emulator:
    """Start a server on a free loopback port and wait until it responds.

    With a `key`, it refuses requests that are not signed with that access key.

    This process opens the port and the server inherits the listening socket. So two
    concurrent starts cannot use the same port.

    Raises:
        UnreachableError: `embedded.server.not_healthy`.
        UsageError: `embedded.port.in_use`.
    """
    log = state_dir / LOG_FILE
    pid_file = state_dir / f"emulator-{secrets.token_hex(8)}.pid"
    with open_port(port) as listener:
        port = int(listener.getsockname()[1])
        with log.open("wb") as sink:
            process = subprocess.Popen(
                _command(python, listener.fileno(), pid_file),
                env=server_environment(port, region, services) | {KEY_VARIABLE: key},
                pass_fds=[listener.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    # The server writes it, too, but later. If this process is killed before that,
    # `stop_untracked` still finds the server.
    pid_file.write_text(str(process.pid), encoding="utf-8")
    endpoint = f"http://{LOOPBACK}:{port}"
    try:
        version = fetch_version(endpoint, health_s)
    except (OSError, ValueError) as error:
        raise _startup_error(process, log) from error
    except BaseException:
        process.kill()
        process.wait()
        raise
    process.returncode = 0  # it keeps running on purpose; avoids Popen's warning
    return Emulator(endpoint, process.pid, region, version, key)


def open_port(port: int) -> socket.socket:
    """Open a loopback port; 0 opens a free one.

    Raises:
        UsageError: `embedded.port.in_use`.
    """
    try:
        return socket.create_server((LOOPBACK, port), backlog=512)
    except OSError as error:
        raise UsageError(
            f"Port {port} cannot be opened: {error.strerror}.",
            code="embedded.port.in_use",
            next_step="Use another port, or none: then a free port is chosen.",
            port=port,
        ) from error


def fetch_version(endpoint: str, timeout_s: float, query: str = "") -> str:
    """Return the version of the server at an endpoint.

    Raises:
        OSError: The server does not respond.
        ValueError: The response is not from MiniStack.
    """
    url = urlsplit(endpoint)
    # A plain connection, so that proxy variables in the environment have no effect.
    connection = HTTPConnection(url.hostname or "", url.port, timeout=timeout_s)
    try:
        connection.request("GET", HEALTH + query)
        return str(json.loads(connection.getresponse().read())["version"])
    except (HTTPException, KeyError, TypeError) as error:
        raise ValueError("the response is not from MiniStack") from error
    finally:
        connection.close()


def answers(emulator: Emulator, timeout_s: float = 5.0) -> bool:
    """Return whether this server answers: another one refuses its access key."""
    try:
        key = f"?X-Amz-Credential={emulator.key}/"
        return fetch_version(emulator.endpoint, timeout_s, key) == emulator.version
    except (OSError, ValueError):
        return False


def stop(pid: int, state_dir: Path, *, patience_s: float = 5.0) -> None:
    """Stop the server; leave another program alone that has reused its pid."""
    step = 0.02
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not is_our_server(pid, state_dir):
            break
        os.kill(pid, number)
        for _ in range(round(patience_s / step)):
            if not is_our_server(pid, state_dir):
                break
            time.sleep(step)
    for pid_file in pid_files(state_dir):
        pid_file.unlink(missing_ok=True)
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # if this process started it: leave no zombie


def stop_untracked(state_dir: Path) -> None:
    """Stop a server without a state file, for example because its `up` was killed."""
    for pid_file in pid_files(state_dir):
        with suppress(FileNotFoundError, ValueError):
            stop(int(pid_file.read_text(encoding="utf-8")), state_dir)


def is_our_server(pid: int, state_dir: Path) -> bool:
    """Return whether the process is alive and the server of this state folder.

    The random name of its pid file shows it, although the folder has moved.
    """
    command = command_line(pid)
    return any(f"/{file.name} " in command for file in pid_files(state_dir))


def pid_files(state_dir: Path) -> list[Path]:
    """Return the pid file of the server of a state folder, if there is one."""
    return list(state_dir.glob("emulator-*.pid"))


def _command(python: Path, listener: int, pid_file: Path) -> list[str]:
    serve = [str(python), "-m", "hypercorn", APPLICATION, "--workers", "0"]
    return [
        *serve,
        *("--bind", f"fd://{listener}"),
        *("--pid", str(pid_file)),
        *("--keep-alive", "75", "--graceful-timeout", "0", "--log-level", "WARNING"),
    ]


def server_environment(port: int, region: str, services: str) -> dict[str, str]:
    """Return the server's environment, without the caller's AWS credentials."""
    kept = ("HOME", "LANG", "PATH", "TMPDIR")
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "BIND_HOST": LOOPBACK,
        "GATEWAY_PORT": str(port),
        "LOG_LEVEL": "WARNING",
        "MINISTACK_HOST": LOOPBACK,
        "MINISTACK_REGION": region,
        "SERVICES": services,
        # Else it would open a broker port and a file-transfer port, and remove
        # containers on the user's engine.
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "DOCKER_HOST": "unix:///dev/null",
    }


def _startup_error(process: subprocess.Popen[bytes], log: Path) -> UnreachableError:
    """Stop the server; return the error with the last lines of its log."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    exited = process.returncode is not None
    process.kill()
    process.wait()
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    tail = "\n".join(lines[-TAIL_LINES:])
    code = process.returncode
    problem = f"exited with code {code}" if exited else "did not respond in time"
    return UnreachableError(
        f"The emulator {problem}. Last lines of {log}:\n{tail}",
        code="embedded.server.not_healthy",
        next_step="Run `piecework doctor`, then `piecework up` again.",
        log=str(log),
    )


def command_line(pid: int) -> str:
    """Return the command line of a process, a space after each word; "" if it ended."""
    if (PROC / "self").exists():
        try:
            raw = (PROC / str(pid) / "cmdline").read_bytes()
        except OSError:
            return ""
        return raw.decode(errors="replace").replace("\0", " ")
    listed = subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(pid)],  # noqa: S607 - no fixed path
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{listed.stdout.strip()} "


# ── refuse endpoints outside this machine ─────────────────────────────────────


def refuse_remote(environ: Mapping[str, str]) -> None:
    """Raise if an AWS endpoint variable names another machine.

    Raises:
        UsageError: `embedded.endpoint.not_loopback`.
    """
    for name, url in sorted(environ.items()):
        if name.startswith("AWS_ENDPOINT_URL") and url and not is_loopback(url):
            raise UsageError(
                f"{name} is {url}, which is not an address of this machine.",
                code="embedded.endpoint.not_loopback",
                next_step=f"Unset {name}, or set it to a loopback address.",
                endpoint=url,
            )


# ── store the running emulator in `.piecework/emulator.json` ──────────────────


def find(start: Path | None = None) -> Emulator | None:
    """Return the emulator that commands in this directory use, or None."""
    return read_state(resolve_folder(None, start))


def resolve_folder(state_dir: Path | None, start: Path | None = None) -> Path:
    """Return the state folder: the argument, the setting, the nearest above, or new."""
    if state_dir is not None:
        return state_dir.absolute()
    return state_folder(os.environ, start or Path.cwd())


def write(state_dir: Path, emulator: Emulator) -> None:
    """Replace the state file atomically, so that readers see the old or the new one.

    Only its owner can read the access key in it.
    """
    draft = state_dir / f"{STATE_FILE}.{os.getpid()}"
    draft.touch(mode=0o600)
    draft.write_text(json.dumps(asdict(emulator), indent=2) + "\n", encoding="utf-8")
    draft.replace(state_dir / STATE_FILE)


def remove(state_dir: Path) -> None:
    """Delete the state file."""
    (state_dir / STATE_FILE).unlink(missing_ok=True)


def remove_folder(state_dir: Path) -> None:
    """Delete log and lock, if the folder has no other file, and the folder.

    A folder that `PIECEWORK_STATE_DIR` names stays.
    """
    if {file.name for file in state_dir.iterdir()} <= REMAINS:
        for name in REMAINS:
            (state_dir / name).unlink(missing_ok=True)
        if state_dir.name == STATE_FOLDER:
            state_dir.rmdir()


@contextmanager
def lock(state_dir: Path) -> Iterator[None]:
    """Let only one `up` or `down` at a time change a state folder; create the folder.

    Raises:
        UsageError: `embedded.state.unreadable`: the folder is not writable.
    """
    try:
        lock_file = _open_lock_file(state_dir)
    except OSError as error:
        raise UsageError(
            f"{state_dir} cannot be written to: {error.strerror}.",
            code="embedded.state.unreadable",
            next_step="Set PIECEWORK_STATE_DIR to a folder of your own.",
        ) from error
    with lock_file:
        yield


def _open_lock_file(state_dir: Path) -> TextIO:
    """Return the locked file; repeat if the folder was removed before it was locked."""
    while True:
        lock_file = _create_lock_file(state_dir)
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            found = (state_dir / LOCK_FILE).stat()
            if os.path.samestat(found, os.fstat(lock_file.fileno())):
                return lock_file
        lock_file.close()


def _create_lock_file(state_dir: Path) -> TextIO:
    state_dir.mkdir(parents=True, exist_ok=True)
    ignore = state_dir / IGNORE_FILE
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    return (state_dir / LOCK_FILE).open("w")
