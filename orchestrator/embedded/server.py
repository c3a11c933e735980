"""Run MiniStack as a process that outlives the command which started it."""

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
#: Where Linux tells of processes; elsewhere `ps` does.
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
    """Start a server on a free loopback port and wait until it answers.

    The port is ours before the server exists: it inherits the listening socket, so
    two starts at once cannot take the same one.
    """
    log = state_dir / "emulator.log"
    with socket.create_server((LOOPBACK, 0), backlog=512) as listener:
        port = int(listener.getsockname()[1])
        with log.open("wb") as sink:
            process = subprocess.Popen(
                _command(python, listener.fileno(), state_dir),
                env=surroundings(port, region, services),
                pass_fds=[listener.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    # The server writes it, too, but later: `stop_stray` is for who is killed first.
    _pid_file(state_dir).write_text(str(process.pid), encoding="utf-8")
    endpoint = f"http://{LOOPBACK}:{port}"
    try:
        version = health(endpoint, health_s)
    except (OSError, ValueError) as error:
        raise _gone(process, log) from error
    except BaseException:
        process.kill()
        process.wait()
        raise
    process.returncode = 0  # it outlives us on purpose: Popen is not to warn of it
    return Emulator(endpoint, process.pid, region, version)


def health(endpoint: str, timeout_s: float) -> str:
    """Ask a server for its version; OSError when it is gone, ValueError if not ours."""
    where = urlsplit(endpoint)
    # Not through a proxy, whatever the environment says of those.
    connection = HTTPConnection(where.hostname or "", where.port, timeout=timeout_s)
    try:
        connection.request("GET", "/_ministack/health")
        return str(json.loads(connection.getresponse().read())["version"])
    except (HTTPException, KeyError, TypeError) as error:
        raise ValueError("the answer is not MiniStack's") from error
    finally:
        connection.close()


def stop(pid: int, state_dir: Path, *, patience_s: float = 5.0) -> None:
    """Stop the server if the process is ours; a pid that was reused is left alone."""
    step = 0.02
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if not is_ours(pid, state_dir):
            break
        os.kill(pid, sign)
        for _ in range(round(patience_s / step)):
            if not is_ours(pid, state_dir):
                break
            time.sleep(step)
    _pid_file(state_dir).unlink(missing_ok=True)
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # started by this very process: leave no zombie


def stop_stray(state_dir: Path) -> None:
    """Stop a server of which no state tells: its `up` was killed, or somebody erred."""
    try:
        pid = int(_pid_file(state_dir).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return
    stop(pid, state_dir)


def is_ours(pid: int, state_dir: Path) -> bool:
    """Say whether the process lives and is the server of this state folder."""
    said = _command_line(pid)
    return " ministack.app:app " in said and f" {_pid_file(state_dir)} " in said


def _command(python: Path, listener: int, state_dir: Path) -> list[str]:
    serve = [str(python), "-m", "hypercorn", "ministack.app:app", "--workers", "0"]
    return [
        *serve,
        *("--bind", f"fd://{listener}"),
        *("--pid", str(_pid_file(state_dir))),
        *("--keep-alive", "75", "--graceful-timeout", "0", "--log-level", "WARNING"),
    ]


def surroundings(port: int, region: str, services: str) -> dict[str, str]:
    """Give the server what it needs, and none of the caller's AWS credentials."""
    kept = ("HOME", "LANG", "PATH", "TMPDIR")
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "BIND_HOST": LOOPBACK,
        "GATEWAY_PORT": str(port),
        "LOG_LEVEL": "WARNING",
        "MINISTACK_HOST": LOOPBACK,
        "MINISTACK_REGION": region,
        "SERVICES": services,
        # It would open a broker port and a file-transfer port of its own, and tidy
        # up containers on the user's engine.
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "DOCKER_HOST": "unix:///dev/null",
    }


def _gone(process: subprocess.Popen[bytes], log: Path) -> UnreachableError:
    """Say why the server does not answer, in the words of its own log."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    died = process.returncode is not None
    process.kill()
    process.wait()
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    tail = "\n".join(lines[-TAIL_LINES:])
    what = f"ended with {process.returncode}" if died else "did not answer in time"
    return UnreachableError(
        f"The emulator {what}; the end of {log}:\n{tail}",
        code="embedded.server.not_healthy",
        next_step="run `piecework doctor`, then `piecework up` again",
        log=str(log),
    )


def _pid_file(state_dir: Path) -> Path:
    return state_dir / "emulator.pid"


def _command_line(pid: int) -> str:
    """Return a living process's words, a space after each; none for a dead one."""
    if (PROC / "self").exists():
        try:
            raw = (PROC / str(pid) / "cmdline").read_bytes()
        except OSError:
            return ""
        return raw.decode(errors="replace").replace("\0", " ")
    asked = subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(pid)],  # noqa: S607 - no fixed place
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{asked.stdout.strip()} "
