"""Start, await and stop the local servers that rivals need."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.tools import NotInstalledError, bin_of

HOST = "127.0.0.1"
PATIENCE_S = 30.0
_running: dict[str, subprocess.Popen[bytes]] = {}


class UnavailableError(Exception):
    """A server is not to be had on this machine; with the reason."""


def program(lock: str, name: str) -> Path:
    """Return a server's program from the environment that a lock names.

    Raises:
        UnavailableError: It could not be installed; with the reason.
    """
    try:
        return bin_of(lock) / name
    except NotInstalledError as error:
        raise UnavailableError(f"{name} could not be installed: {error}") from error


def launch(
    name: str, command: Sequence[object], folder: Path, port: int, **options: Any
) -> None:
    """Start a server in its folder and wait until its port answers.

    Raises:
        UnavailableError: It did not start.
    """
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
            **options,
        )
    _running[name] = process
    until = time.monotonic() + PATIENCE_S
    while not answers(port):
        if process.poll() is not None or time.monotonic() > until:
            end(name)
            said = log.read_text(encoding="utf-8", errors="replace")
            raise UnavailableError(f"{name} did not start: {said[-500:].strip()}")
        time.sleep(0.05)


def end(name: str) -> None:
    """Stop a server that `launch` started, if it runs."""
    process = _running.pop(name, None)
    if process is None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def pid_of(name: str) -> int:
    """Return the first process of a running server: its CPU is part of the price."""
    return _running[name].pid


def answers(port: int) -> bool:
    """Return whether a port accepts connections."""
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
        return True
    return False


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as held:
        held.bind((HOST, 0))
        port: int = held.getsockname()[1]
        return port
