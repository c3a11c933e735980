"""Describe the machine and the versions of a run."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from bench.adapters.rival import unavailable_reason
from bench.adapters.systems import Rival
from bench.processes import TICKS, tree_cpu_s
from piecework_orchestrator.embedded.environment import VERSION
from tests.tools import ROOT, bin_of

PIECEWORK = ("piecework", "aiobotocore", "botocore", "aiohttp", "pydantic")
#: What the bench itself writes.
WRITTEN = (":(exclude)bench/results", ":(exclude)docs")
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
    for rival in rivals:
        if unavailable_reason(rival.lock):
            continue
        asked = [str(bin_of(rival.lock) / "python"), "-c", ASK, *rival.packages]
        said = subprocess.run(asked, capture_output=True, text=True, check=False)
        found |= dict(zip(rival.packages, said.stdout.split(), strict=False))
    return found


def commit() -> str:
    """Return the commit that was measured, and whether it was changed since.

    A part of the bench writes results and pages: the next part leaves them out.
    """
    found = said_by_git("rev-parse", "--short", "HEAD")
    changed = said_by_git("status", "--porcelain", "--", ".", *WRITTEN)
    return f"{found}-dirty" if found and changed else found or "unknown"


def said_by_git(*words: str) -> str:
    """Return what a command of git prints; empty if there is no repository."""
    asked = ["git", *words]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=ROOT, check=False)
    return done.stdout.strip()


# ── measure noise ─────────────────────────────────────────────────────────────

#: Fields of the first line of /proc/stat: user, nice, system, idle, iowait, irq,
#: softirq, steal. Idle and iowait are unused time.
IDLE, IOWAIT, STEAL = 3, 4, 7
FIELDS = 8


@dataclass(frozen=True, slots=True)
class NoiseSample:
    """The CPU used so far by all, by the bench, and by other guests of the host."""

    at: float
    busy_s: float
    ours_s: float
    steal_s: float


def sample() -> NoiseSample:
    """Take a sample."""
    line = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    busy, steal = parse(line)
    return NoiseSample(time.monotonic(), busy, tree_cpu_s(os.getpid()), steal)


def parse(line: str) -> tuple[float, float]:
    """Return the busy seconds and the stolen ones of all cores."""
    fields = [int(word) / TICKS for word in line.split()[1 : FIELDS + 1]]
    steal = fields[STEAL]
    return sum(fields) - fields[IDLE] - fields[IOWAIT] - steal, steal


def between(before: NoiseSample, after: NoiseSample) -> dict[str, float]:
    """Return the noise between two samples, as the results store it."""
    seconds = after.at - before.at
    foreign = (after.busy_s - before.busy_s) - (after.ours_s - before.ours_s)
    return {
        "seconds": seconds,
        "foreign_cores": max(0.0, foreign / seconds),
        "steal_cores": (after.steal_s - before.steal_s) / seconds,
        "load": os.getloadavg()[0],
    }
