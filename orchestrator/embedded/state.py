"""Remember the running emulator in `.piecework/emulator.json`, for later commands."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from piecework.endpoint import STATE_FILE, Emulator, read_state, state_folder
from piecework.errors import UsageError


def find(start: Path | None = None) -> Emulator | None:
    """Return the emulator that commands started here would use, if there is one."""
    return read_state(folder(None, start))


def folder(given: Path | None, start: Path | None = None) -> Path:
    """Return the state folder: as given, as set, the nearest upwards, or a new one."""
    if given is not None:
        return given.absolute()
    return state_folder(os.environ, start or Path.cwd())


def write(state_dir: Path, emulator: Emulator) -> None:
    """Replace the state file in one step: a reader sees the old or the new one."""
    draft = state_dir / f"{STATE_FILE}.{os.getpid()}"
    draft.write_text(json.dumps(asdict(emulator), indent=2) + "\n", encoding="utf-8")
    draft.replace(state_dir / STATE_FILE)


def remove(state_dir: Path) -> None:
    """Forget the emulator."""
    (state_dir / STATE_FILE).unlink(missing_ok=True)


@contextmanager
def locked(state_dir: Path) -> Iterator[None]:
    """Let one `up` or `down` at a time change a state folder; made when absent.

    Raises:
        UsageError: `embedded.state.unreadable`: it is somebody else's, or no folder.
    """
    try:
        lock = _lock_of(state_dir)
    except OSError as error:
        raise UsageError(
            f"{state_dir} cannot be written to: {error.strerror}.",
            code="embedded.state.unreadable",
            next_step="Set PIECEWORK_STATE_DIR to a folder of your own.",
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _lock_of(state_dir: Path) -> TextIO:
    state_dir.mkdir(parents=True, exist_ok=True)
    ignore = state_dir / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    return (state_dir / "emulator.lock").open("w")
