"""Remember the running emulator in `.piecework/emulator.json`, for later commands."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from piecework.errors import UsageError

FOLDER = ".piecework"
FILE = "emulator.json"


@dataclass(frozen=True, slots=True)
class Emulator:
    """Where the embedded AWS answers, and which process it is."""

    endpoint: str
    pid: int
    region: str
    version: str


def find(start: Path | None = None) -> Emulator | None:
    """Return the emulator that commands started here would use, if there is one."""
    return read(folder(None, start))


def folder(given: Path | None, start: Path | None = None) -> Path:
    """Return the state folder: as given, as set, the nearest upwards, or a new one."""
    if given is not None:
        return given.absolute()
    if chosen := os.environ.get("PIECEWORK_STATE_DIR"):
        return Path(chosen).absolute()
    here = (start or Path.cwd()).absolute()
    for parent in (here, *here.parents):
        if (parent / FOLDER / FILE).is_file():
            return parent / FOLDER
    return here / FOLDER


def read(state_dir: Path) -> Emulator | None:
    """Return what the state file says; None when there is no file."""
    path = state_dir / FILE
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return Emulator(
            endpoint=str(fields["endpoint"]),
            pid=int(fields["pid"]),
            region=str(fields["region"]),
            version=str(fields["version"]),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} does not describe an emulator.",
            code="embedded.state.unreadable",
            next_step=f"delete {path}, then run `piecework up`",
        ) from error


def write(state_dir: Path, emulator: Emulator) -> None:
    """Replace the state file in one step: a reader sees the old or the new one."""
    draft = state_dir / f"{FILE}.{os.getpid()}"
    draft.write_text(json.dumps(asdict(emulator), indent=2) + "\n", encoding="utf-8")
    draft.replace(state_dir / FILE)


def remove(state_dir: Path) -> None:
    """Forget the emulator."""
    (state_dir / FILE).unlink(missing_ok=True)


@contextmanager
def locked(state_dir: Path) -> Iterator[None]:
    """Let one `up` or `down` at a time change a state folder; made when absent."""
    state_dir.mkdir(parents=True, exist_ok=True)
    ignore = state_dir / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    with (state_dir / "emulator.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
