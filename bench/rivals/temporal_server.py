"""Temporal's dev server, from a wheel: as `temporal server start-dev` runs it.

Its documentation says to use it for development: one process, its database in memory
(nothing is synced to a disk). A real cluster has other rates.
"""

from __future__ import annotations

import os
from pathlib import Path

from bench.rivals import local_server
from bench.rivals.local_server import HOST

NAME = "temporal"


def start(folder: Path) -> str:
    """Start a server; return its address, HOST:PORT.

    Raises:
        UnavailableError: No server can be run here; with the reason.
    """
    server = local_server.program("bench-temporal", "temporal")
    home, port = folder / "temporal", local_server.free_port()
    home.mkdir()
    command = [server, "server", "start-dev", "--ip", HOST, "--port", str(port)]
    command += ["--headless", "--log-level", "error"]
    # The server ends without it; a container may not set it.
    os.environ.setdefault("USER", "bench")
    local_server.launch(NAME, command, home, port)
    return f"{HOST}:{port}"


def stop() -> None:
    """Stop the server that `start` started."""
    local_server.end(NAME)
