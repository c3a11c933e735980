"""AWS on this machine, with no account and no container: start, find, stop.

MiniStack runs as a process of its own, in an environment of its own, because it
pins another botocore than ours. It keeps everything in memory: what `down` stops
is gone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from orchestrator.embedded import deploy, environment, server, state
from orchestrator.embedded.endpoint import refuse_remote
from orchestrator.embedded.state import find
from piecework.endpoint import Emulator, read_state

__all__ = ["Emulator", "down", "find", "up"]

REGION = "us-east-1"


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def up(
    app: str,
    env: str,
    state_dir: Path | None = None,
    *,
    region: str = REGION,
    say: Callable[[str], None] = _to_stderr,
) -> Emulator:
    """Bring the emulator up with the data stack of `app` and `env` in it.

    Doing it twice is harmless: a running emulator is kept, and a stack that is
    there already is left alone.
    """
    refuse_remote(os.environ)
    folder = state.folder(state_dir)
    with state.locked(folder):
        emulator = read_state(folder)
        if emulator is None or not server.is_ours(emulator.pid, folder):
            python = environment.ensure(say=say)
            server.stop_stray(folder)
            emulator = server.start(python, folder, region)
            state.write(folder, emulator)
        deploy.into(emulator, app, env)
    return emulator


def down(state_dir: Path | None = None) -> Emulator | None:
    """Stop the emulator and forget it; None when there was none."""
    refuse_remote(os.environ)
    folder = state.folder(state_dir)
    if not folder.is_dir():
        return None
    with state.locked(folder):
        emulator = read_state(folder)
        if emulator is not None:
            refuse_remote({"AWS_ENDPOINT_URL": emulator.endpoint})
            server.stop(emulator.pid, folder)
            state.remove(folder)
        server.stop_stray(folder)
    return emulator
