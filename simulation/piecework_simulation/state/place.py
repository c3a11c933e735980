"""Name the state file of a run after its pipeline, its input and its deployment."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from piecework.settings import Settings
from piecework_orchestrator.submit.intake.json_lines import SCHEME, unreadable
from piecework_orchestrator.submit.intake.source import STDIN, files_of

#: The folder of state files below that of the user.
FOLDER = Path("piecework") / "runs"
ENDING = ".state"
#: The beginning of the modules that `piecework ask` writes, one for each question.
ASKED = "asked_"
#: Hexadecimal digits that tell runs apart whose names look alike.
DIGITS = 12
BLOCK = 1024 * 1024
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def state_home(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of this user's state files, as the XDG rules name it."""
    named = environment.get("XDG_STATE_HOME", "")
    if Path(named).is_absolute():
        return Path(named) / FOLDER
    try:
        return Path.home() / ".local" / "state" / FOLDER
    except RuntimeError:  # the system does not know the user of this process
        return Path("/") / FOLDER


def state_path(pipeline: str, source: str, settings: Settings) -> Path:
    """Return the state file of a run that names none.

    `pipeline` is what the user typed; the module is the one of this folder.
    """
    place = source if source.startswith(SCHEME) else str(Path(source).absolute())
    parts = (
        *(pipeline, str(Path.cwd()), place),
        *(settings.app, settings.env, settings.tenant),
    )
    digest = hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()
    shown = f"{pipeline.rpartition(':')[2]}-{Path(source).name}"
    name = _NOT_IN_NAMES.sub("-", shown).strip("-.")[:80]
    return state_home() / f"{name}-{digest[:DIGITS]}{ENDING}"


def can_be_remembered(source: str) -> bool:
    """Return whether the same input can be read again by its name."""
    return source != STDIN


def content_digest(source: str) -> str:
    """Return a digest of what a source holds; empty: only its reader can tell.

    Raises:
        UsageError: `input.source.not_found`, `input.file.unreadable`.
    """
    if source.startswith(SCHEME) or source == STDIN:
        return ""
    digest = hashlib.sha256()
    for path in files_of(source):
        try:
            if not path.is_file():  # what a pipe holds cannot be read twice
                continue
            with path.open("rb") as file:
                digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
                while block := file.read(BLOCK):
                    digest.update(block)
        except OSError as error:
            raise unreadable(str(path), error) from error
    return digest.hexdigest()
