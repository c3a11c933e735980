"""Measure the first minute of a new user: `make demo` in a fresh clone.

The clone has no environment, and the cache of the embedded AWS is empty; the package
index may be warm. Seconds are those of the machine: measure on an idle one.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
MB = 1_000_000


def first_minute(folder: Path) -> dict[str, float]:
    """Run the demo of a clone in a folder; return its times and what it installed.

    Returns:
        `demo_first_line_s`, `demo_last_line_s`: seconds after the command was typed.
        `demo_longest_gap_s`: the longest time without a line.
        `demo_mb`: megabytes of the environment and of the embedded AWS.

    Raises:
        SystemExit: The demo failed.
    """
    clone, cache = folder / "clone", folder / "cache"
    copy = ["git", "clone", "--quiet", ROOT, clone]
    subprocess.run(copy, check=True)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "PIECEWORK_", "MAKE", "VENV", "VIRTUAL_ENV"))
    }
    command = ["make", "demo"]
    started_at = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=clone,
        env=kept | {"PIECEWORK_CACHE_DIR": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as demo:
        assert demo.stdout is not None
        lines = [time.monotonic() - started_at for _ in demo.stdout]
    if demo.returncode:
        raise SystemExit(f"`make demo` ended with exit code {demo.returncode}")
    gaps = [after - before for before, after in zip([0.0, *lines], lines, strict=False)]
    return {
        "demo_first_line_s": round(lines[0], 1),
        "demo_last_line_s": round(lines[-1], 1),
        "demo_longest_gap_s": round(max(gaps), 1),
        "demo_mb": round(sum(map(size_of, (clone / ".venv", cache))) / MB),
    }


def size_of(folder: Path) -> int:
    """Return the bytes of the files of a folder; a linked file counts where it is."""
    files = (path for path in folder.rglob("*") if not path.is_symlink())
    return sum(path.stat().st_size for path in files if path.is_file())
