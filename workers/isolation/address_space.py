"""Limit the memory of this process: an allocation beyond it raises MemoryError."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEGABYTE = 1 << 20
STATM = Path("/proc/self/statm")
SIZE, RESIDENT = 0, 1


@contextmanager
def memory_limit(megabytes: int) -> Iterator[None]:
    """Allow `megabytes` beyond the current size of the process; 0: no limit.

    Linux can limit the address space. Only the soft limit is set, because it must be
    lifted
    again: the process reports the failure and continues.
    """
    if not megabytes or not STATM.exists():
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    allowed = memory_used(SIZE) + megabytes * MEGABYTE
    capped = allowed if soft == resource.RLIM_INFINITY else min(allowed, soft)
    resource.setrlimit(resource.RLIMIT_AS, (capped, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def memory_used(kind: int) -> int:
    """Return the bytes that this process uses; 0 without /proc."""
    if not STATM.exists():
        return 0
    return int(STATM.read_text().split()[kind]) * resource.getpagesize()
