"""Measure noise: the cores that other processes used during a run."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from bench.processes import TICKS, tree_cpu_s

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
