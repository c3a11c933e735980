"""Redis for the rivals that need it, from a wheel.

Redis keeps an append-only file, synced every second, as its documentation advises
against lost work. (PostgreSQL syncs each commit.) The rest are defaults.
"""

from __future__ import annotations

from pathlib import Path

from bench.rivals import local_server
from bench.rivals.local_server import HOST

NAME = "redis"


def start(folder: Path) -> str:
    """Start a server with its data in a folder; return its URL.

    Raises:
        UnavailableError: No server can be run here; with the reason.
    """
    server = local_server.program("bench-postgres", "redis-server")
    data, port = folder / "redis", local_server.free_port()
    data.mkdir()
    command = [server, "--bind", HOST, "--port", str(port), "--dir", data]
    command += ["--appendonly", "yes", "--appendfsync", "everysec"]
    local_server.launch(NAME, command, data, port)
    return f"redis://{HOST}:{port}/0"


def stop() -> None:
    """Stop the server that `start` started."""
    local_server.end(NAME)
