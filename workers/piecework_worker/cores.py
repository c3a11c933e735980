"""Count the cores that a worker may use: `--processes auto` runs one process on each.

A container sees all cores of its machine, and may use a part of them. The limit is in
its control group, or, on Fargate, in the metadata of the task.
"""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

#: The files with the quota of a container: of cgroup 2, and of cgroup 1. The first has
#: the quota and the period; the others have one each.
CGROUP_2 = Path("/sys/fs/cgroup/cpu.max")
CGROUP_1 = (
    Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
    Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
)
AUTO = "auto"
#: The variable with the address of a task's metadata; only tasks of ECS have it.
METADATA = "ECS_CONTAINER_METADATA_URI_V4"


def parse_processes(word: str) -> int:
    """Return the number of processes; 0: one for each core.

    Raises:
        ArgumentTypeError: The word is another one.
    """
    if word == AUTO:
        return 0
    if not word.isdecimal() or int(word) < 1:
        raise ArgumentTypeError(f"{word!r} is neither {AUTO!r} nor a number from 1")
    return int(word)


def count_cores(
    task_cpus: float, places: Sequence[Path] = (CGROUP_2, *CGROUP_1)
) -> int:
    """Return the whole cores that this process may use, at least one.

    `task_cpus`: those of its ECS task; 0: unknown.
    """
    if hasattr(os, "sched_getaffinity"):
        visible = len(os.sched_getaffinity(0))
    else:
        visible = os.cpu_count() or 1
    quotas = (each for each in (task_cpus, *cgroup_quotas(*places)) if each > 0)
    return max(1, int(min([visible, *quotas])))


def cgroup_quotas(cgroup_2: Path, quota: Path, period: Path) -> Iterator[float]:
    """Yield the cores of each quota of the container."""
    with suppress(OSError, ValueError):  # no such file, or "max"
        allowed, per = cgroup_2.read_text().split()
        yield int(allowed) / int(per)
    with suppress(OSError, ValueError):
        yield int(quota.read_text()) / int(period.read_text())
