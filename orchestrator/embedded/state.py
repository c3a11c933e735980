"""Store the running emulator in `.piecework/emulator.json` for later commands."""

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
    """Return the emulator that commands in this directory use, or None."""
    return read_state(resolve_folder(None, start))


def resolve_folder(state_dir: Path | None, start: Path | None = None) -> Path:
    """Return the state folder: the argument, the setting, the nearest above, or new."""
    if state_dir is not None:
        return state_dir.absolute()
    return state_folder(os.environ, start or Path.cwd())


def write(state_dir: Path, emulator: Emulator) -> None:
    """Replace the state file atomically, so that readers see the old or the new one."""
    draft = state_dir / f"{STATE_FILE}.{os.getpid()}"
    draft.write_text(json.dumps(asdict(emulator), indent=2) + "\n", encoding="utf-8")
    draft.replace(state_dir / STATE_FILE)


def remove(state_dir: Path) -> None:
    """Delete the state file."""
    (state_dir / STATE_FILE).unlink(missing_ok=True)


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
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        yield


def _open_lock_file(state_dir: Path) -> TextIO:
    state_dir.mkdir(parents=True, exist_ok=True)
    ignore = state_dir / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    return (state_dir / "emulator.lock").open("w")
