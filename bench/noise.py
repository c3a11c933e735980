"""What else went on: the cores that others used while a run took place."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from bench.processes import TICKS, tree_cpu_s

#: Fields of the first line of /proc/stat: user, nice, system, idle, iowait, irq,
#: softirq, steal. Idle and iowait are nobody's.
IDLE, IOWAIT, STEAL = 3, 4, 7
FIELDS = 8


@dataclass(frozen=True, slots=True)
class NoiseSample:
    """How much CPU was used so far: by all, by us, by the host's other guests."""

    at: float
    busy_s: float
    ours_s: float
    steal_s: float


def sample() -> NoiseSample:
    """Look at the machine."""
    line = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    busy, steal = parse(line)
    return NoiseSample(time.monotonic(), busy, tree_cpu_s(os.getpid()), steal)


def parse(line: str) -> tuple[float, float]:
    """Return the busy seconds and the stolen ones of all cores."""
    fields = [int(word) / TICKS for word in line.split()[1 : FIELDS + 1]]
    steal = fields[STEAL]
    return sum(fields) - fields[IDLE] - fields[IOWAIT] - steal, steal


def between(before: NoiseSample, after: NoiseSample) -> dict[str, float]:
    """Return what a results file keeps of the noise of a run."""
    seconds = after.at - before.at
    foreign = (after.busy_s - before.busy_s) - (after.ours_s - before.ours_s)
    return {
        "seconds": seconds,
        "foreign_cores": max(0.0, foreign / seconds),
        "steal_cores": (after.steal_s - before.steal_s) / seconds,
        "load": os.getloadavg()[0],
    }
