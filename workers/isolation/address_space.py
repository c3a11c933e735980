"""Limit what this process may take: an allocation too many is a MemoryError."""

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
    """Allow so many megabytes beyond what the process has; 0: as many as there are.

    Address space is what Linux can limit. Only the soft limit is set: it has to be
    lifted again, for the process is to tell of its failure and to go on.
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
    """Return the bytes that this process has; 0 where there is no /proc."""
    if not STATM.exists():
        return 0
    return int(STATM.read_text().split()[kind]) * resource.getpagesize()
