"""Run MiniStack as a process that keeps running after the command that started it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from piecework.endpoint import Emulator
from piecework.errors import UnreachableError

LOOPBACK = "127.0.0.1"
HEALTH_S = 20.0
TAIL_LINES = 12
#: Process information on Linux; other systems use `ps`.
PROC = Path("/proc")
SERVICES = "cloudformation,dynamodb,s3,sqs,sts"


def start(
    python: Path,
    state_dir: Path,
    region: str,
    *,
    services: str = SERVICES,
    health_s: float = HEALTH_S,
) -> Emulator:
    """Start a server on a free loopback port and wait until it responds.

    This process opens the port and the server inherits the listening socket. So two
    concurrent starts cannot use the same port.

    Raises:
        UnreachableError: `embedded.server.not_healthy`.
    """
    log = state_dir / "emulator.log"
    with socket.create_server((LOOPBACK, 0), backlog=512) as listener:
        port = int(listener.getsockname()[1])
        with log.open("wb") as sink:
            process = subprocess.Popen(
                _command(python, listener.fileno(), state_dir),
                env=server_environment(port, region, services),
                pass_fds=[listener.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    # The server writes it, too, but later. If this process is killed before that,
    # `stop_untracked` still finds the server.
    _pid_file(state_dir).write_text(str(process.pid), encoding="utf-8")
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
    return Emulator(endpoint, process.pid, region, version)


def fetch_version(endpoint: str, timeout_s: float) -> str:
    """Return the version of the server at an endpoint.

    Raises:
        OSError: The server does not respond.
        ValueError: The response is not from MiniStack.
    """
    url = urlsplit(endpoint)
    # A plain connection, so that proxy variables in the environment have no effect.
    connection = HTTPConnection(url.hostname or "", url.port, timeout=timeout_s)
    try:
        connection.request("GET", "/_ministack/health")
        return str(json.loads(connection.getresponse().read())["version"])
    except (HTTPException, KeyError, TypeError) as error:
        raise ValueError("the response is not from MiniStack") from error
    finally:
        connection.close()


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
    _pid_file(state_dir).unlink(missing_ok=True)
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # if this process started it: leave no zombie


def stop_untracked(state_dir: Path) -> None:
    """Stop a server without a state file, for example because its `up` was killed."""
    try:
        pid = int(_pid_file(state_dir).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return
    stop(pid, state_dir)


def is_our_server(pid: int, state_dir: Path) -> bool:
    """Return whether the process is alive and the server of this state folder."""
    command = _command_line(pid)
    return " ministack.app:app " in command and f" {_pid_file(state_dir)} " in command


def _command(python: Path, listener: int, state_dir: Path) -> list[str]:
    serve = [str(python), "-m", "hypercorn", "ministack.app:app", "--workers", "0"]
    return [
        *serve,
        *("--bind", f"fd://{listener}"),
        *("--pid", str(_pid_file(state_dir))),
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


def _pid_file(state_dir: Path) -> Path:
    return state_dir / "emulator.pid"


def _command_line(pid: int) -> str:
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
