"""Describe the machine and the versions of a run."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from bench.systems import Rival
from bench.theirs import unavailable_reason
from orchestrator.embedded.environment import VERSION
from tests.apart import ROOT, bin_of

PIECEWORK = ("piecework", "aioboto3", "aiobotocore", "botocore", "aiohttp", "pydantic")
ASK = (
    "import sys; from importlib.metadata import version as v;"
    " print(*(v(name) for name in sys.argv[1:]))"
)


def machine() -> dict[str, str]:
    """Return the properties of the machine."""
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.partition(":")[2].strip() for line in info if "model name" in line]
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": str(os.cpu_count()),
        "memory": f"{pages / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
    }


def versions(rivals: Iterable[Rival]) -> dict[str, str]:
    """Return the versions of Piecework, and of each installed rival."""
    found = {"python": platform.python_version(), "ministack": VERSION}
    found |= {name: version(name) for name in PIECEWORK}
    found["commit"] = commit()
    for rival in rivals:
        if unavailable_reason(rival.lock):
            continue
        asked = [str(bin_of(rival.lock) / "python"), "-c", ASK, *rival.packages]
        said = subprocess.run(asked, capture_output=True, text=True, check=False)
        found |= dict(zip(rival.packages, said.stdout.split(), strict=False))
    return found


def commit() -> str:
    """Return the commit that was measured, and whether it was changed since."""
    asked = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=ROOT, check=False)
    return done.stdout.strip() or "unknown"
