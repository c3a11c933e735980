"""Make MiniStack's own Python environment, once, under the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from orchestrator.embedded import resources
from piecework.errors import UnreachableError

VERSION = "1.5.33"
TAIL_LINES = 12


def ensure(
    say: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
    base: str = sys.executable,
) -> Path:
    """Return the environment's Python; build the environment when it is missing."""
    lock = resources.lock()
    cache = cache_folder(environ)
    home = cache / f"ministack-{VERSION}-{fingerprint(lock)}"
    python = home / "bin" / "python"
    if python.exists():
        return python
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{home.name}.lock").open("w") as turn:
        _take(turn.fileno(), say)
        if not python.exists():  # else another process built it while we waited
            say(f"installing MiniStack {VERSION} into {home} (once, about 50 MB)")
            _build(home, lock, base, say, environ)
    return python


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return where environments are kept between projects."""
    if chosen := environ.get("PIECEWORK_CACHE_DIR"):
        return Path(chosen).absolute()
    if base := environ.get("XDG_CACHE_HOME"):
        return Path(base).absolute() / "piecework"
    return Path.home() / ".cache" / "piecework"


def fingerprint(lock: str) -> str:
    """Name a set of packages for one Python: another of either is another folder."""
    made_of = f"{lock}\n{sys.version_info.major}.{sys.version_info.minor}"
    return hashlib.sha256(made_of.encode()).hexdigest()[:12]


def _take(lock: int, say: Callable[[str], None]) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("waiting for another process that is installing MiniStack")
        fcntl.flock(lock, fcntl.LOCK_EX)


def _build(
    home: Path,
    lock: str,
    base: str,
    say: Callable[[str], None],
    environ: Mapping[str, str],
) -> None:
    """Build beside the final place and rename: half an environment is never seen."""
    draft = Path(tempfile.mkdtemp(prefix=f".{home.name}.", dir=home.parent))
    try:
        requirements = draft / "requirements.txt"
        requirements.write_text(lock, encoding="utf-8")
        _fill(draft / "env", requirements, base, say, environ)
        if home.exists():  # its Python is gone: an interpreter that was upgraded away
            shutil.rmtree(home)
        (draft / "env").rename(home)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _fill(
    place: Path,
    requirements: Path,
    base: str,
    say: Callable[[str], None],
    environ: Mapping[str, str],
) -> None:
    """Install with uv when it is there and works, else with venv and pip."""
    python = str(place / "bin" / "python")
    install = ["install", "--quiet", "--require-hashes", "-r", str(requirements)]
    if uv := shutil.which("uv", path=environ.get("PATH")):
        venv = [uv, "venv", "--quiet", "--clear", "--python", base, str(place)]
        pip = [uv, "pip", *install, "--compile-bytecode", "--python", python]
        if not (why := _run(venv, pip, environ=environ)):
            return
        say(f"uv could not, so pip will try; uv said:\n{why}")
    venv = [base, "-m", "venv", "--clear", str(place)]
    pip = [python, "-m", "pip", "--disable-pip-version-check", *install]
    if why := _run(venv, pip, environ=environ):
        raise UnreachableError(
            f"MiniStack's environment could not be made:\n{why}",
            code="embedded.environment.install_failed",
            next_step="check the package index and the network, then `piecework up`",
        )


def _run(*commands: list[str], environ: Mapping[str, str]) -> str:
    """Run one after another; return the last lines of the one that failed."""
    for command in commands:
        done = subprocess.run(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            tail = "\n".join(done.stdout.splitlines()[-TAIL_LINES:])
            return tail or f"{command[0]} ended with {done.returncode}"
    return ""
