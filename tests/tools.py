"""Tools whose dependencies conflict with ours: each lock has its own environment."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / ".tools"
STAMP = "installed"


class NotInstalledError(Exception):
    """The tools cannot be installed here; the message is the installer's."""


def bin_of(name: str) -> Path:
    """Return the programs of `requirements/<name>.txt`; install them when need be.

    Each environment belongs to one lock and one version of Python.

    Raises:
        NotInstalledError: The index could not be reached, or refused.
    """
    lock = ROOT / "requirements" / f"{name}.txt"
    made_of = f"{lock.read_text(encoding='utf-8')}\n{sys.version_info[:2]}"
    home = TOOLS / f"{name}-{hashlib.sha256(made_of.encode()).hexdigest()[:12]}"
    if not (home / STAMP).exists():
        sys.stderr.write(f"installing {name} into {home.relative_to(ROOT)} (once)\n")
        TOOLS.mkdir(exist_ok=True)
        (TOOLS / ".gitignore").write_text("*\n", encoding="utf-8")
        install(lock, home)
        (home / STAMP).touch()
    return home / "bin"


def install(lock: Path, home: Path) -> None:
    """Install the lock, with uv if it is available, otherwise with venv and pip."""
    python = str(home / "bin" / "python")
    locked = ["install", "--quiet", "--require-hashes", "-r", str(lock)]
    if uv := shutil.which("uv"):
        commands = [
            [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(home)],
            # As pip does: otherwise each start compiles everything where it cannot
            # write.
            [uv, "pip", *locked, "--compile-bytecode", "--python", python],
        ]
    else:
        commands = [
            [sys.executable, "-m", "venv", "--clear", str(home)],
            [python, "-m", "pip", "--disable-pip-version-check", *locked],
        ]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotInstalledError(done.stderr[-2000:])
