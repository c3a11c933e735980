"""Install MiniStack into its own Python environment, once, in the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from piecework.errors import UnreachableError

VERSION = "1.5.33"
TAIL_LINES = 12
#: Seconds between two lines about an installation that runs.
REPORT_EVERY_S = 3.0


def ensure_environment(
    report: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
    base: str = sys.executable,
) -> Path:
    """Return the Python of MiniStack's environment; install it if it is missing.

    Raises:
        UnreachableError: `embedded.environment.install_failed`.
    """
    return ensure_locked(
        "MiniStack", VERSION, read_lock_file(), report, environ=environ, base=base
    )


def ensure_locked(
    name: str,
    version: str,
    lock: str,
    report: Callable[[str], None],
    *,
    environ: Mapping[str, str] = os.environ,
    base: str = sys.executable,
) -> Path:
    """Return the Python of an environment that has what `lock` lists, made once.

    Raises:
        UnreachableError: `embedded.environment.install_failed`.
    """
    cache = cache_folder(environ)
    home = cache / f"{name.lower()}-{version}-{fingerprint(lock)}"
    python = home / "bin" / "python"
    if python.exists():
        return python
    try:
        cache.mkdir(parents=True, exist_ok=True)
        opened = (cache / f"{home.name}.lock").open("w")
    except OSError as error:
        raise UnreachableError(
            f"{cache} cannot be written to: {error.strerror}.",
            code="embedded.environment.install_failed",
            next_step="Set PIECEWORK_CACHE_DIR to a folder of your own.",
        ) from error
    with opened as lock_file:
        _acquire_lock(lock_file.fileno(), name, report)
        if not python.exists():  # else another process installed it meanwhile
            report(f"installing {name} {version} into {home} (once)")
            _build_environment(name, home, lock, base, report, environ)
    return python


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of environments that all projects share."""
    if chosen := environ.get("PIECEWORK_CACHE_DIR"):
        return Path(chosen).absolute()
    if base := environ.get("XDG_CACHE_HOME"):
        return Path(base).absolute() / "piecework"
    return Path.home() / ".cache" / "piecework"


def fingerprint(lock: str) -> str:
    """Return a hash of locked packages and Python version, for a folder name."""
    source = f"{lock}\n{sys.version_info.major}.{sys.version_info.minor}"
    return hashlib.sha256(source.encode()).hexdigest()[:12]


def _acquire_lock(lock: int, name: str, report: Callable[[str], None]) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        report(f"another process is installing {name}; waiting for it")
        fcntl.flock(lock, fcntl.LOCK_EX)


def _build_environment(
    name: str,
    home: Path,
    lock: str,
    base: str,
    report: Callable[[str], None],
    environ: Mapping[str, str],
) -> None:
    """Install into a temporary folder, then rename it: readers never see half of it."""
    draft = Path(tempfile.mkdtemp(prefix=f".{home.name}.", dir=home.parent))
    try:
        requirements = draft / "requirements.txt"
        requirements.write_text(lock, encoding="utf-8")
        _install_packages(name, draft / "env", requirements, base, report, environ)
        if home.exists():  # its Python is missing: the interpreter was upgraded
            shutil.rmtree(home)
        (draft / "env").rename(home)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _install_packages(
    name: str,
    folder: Path,
    requirements: Path,
    base: str,
    report: Callable[[str], None],
    environ: Mapping[str, str],
) -> None:
    """Install with uv; fall back to venv and pip if uv is missing or fails."""
    python = str(folder / "bin" / "python")
    install = ["install", "--quiet", "--require-hashes", "-r", str(requirements)]
    if uv := shutil.which("uv", path=environ.get("PATH")):
        venv = [uv, "venv", "--quiet", "--clear", "--python", base, str(folder)]
        pip = [uv, "pip", *install, "--compile-bytecode", "--python", python]
        if not (error := _run(venv, pip, report=report, environ=environ)):
            return
        report(f"uv failed; trying pip. Output of uv:\n{error}")
    packages = requirements.read_text("utf-8").count("==")
    report(f"installing {packages} packages with pip")
    venv = [base, "-m", "venv", "--clear", str(folder)]
    pip = [python, "-m", "pip", "--disable-pip-version-check", *install]
    if error := _run(venv, pip, report=report, environ=environ):
        raise UnreachableError(
            f"{name} could not be installed:\n{error}",
            code="embedded.environment.install_failed",
            next_step="Check package index and network, then run `piecework up` again.",
        )


def _run(
    *commands: list[str], report: Callable[[str], None], environ: Mapping[str, str]
) -> str:
    """Run the commands in order; return the last lines of a failed one, else "".

    Report every few seconds that they run: an installation may take a minute.
    """
    started_at = time.monotonic()
    for command in commands:
        process = subprocess.Popen(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        with process:
            while True:
                try:
                    output, _ = process.communicate(timeout=REPORT_EVERY_S)
                    break
                except subprocess.TimeoutExpired:
                    spent_s = time.monotonic() - started_at
                    report(f"still installing after {spent_s:.0f} s")
        if process.returncode:
            tail = "\n".join(output.splitlines()[-TAIL_LINES:])
            return tail or f"{command[0]} ended with {process.returncode}"
    return ""


# ── hashed requirements of the embedded emulator ──────────────────────────────
#
# A checkout has them in `requirements/`; the wheel carries a copy in this package.

NAME = "ministack.txt"
HERE = Path(__file__).parent
CHECKOUT = HERE.parents[2]


def read_lock_file() -> str:
    """Return the hashed requirements of the emulator's environment."""
    packaged = HERE / NAME
    path = packaged if packaged.is_file() else CHECKOUT / "requirements" / NAME
    return path.read_text(encoding="utf-8")
