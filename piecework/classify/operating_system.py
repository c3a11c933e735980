"""Errors of the operating system: network errors and exhausted resources."""

from __future__ import annotations

import errno
from typing import Final

from piecework.classify.verdict import Verdict

_NETWORK: Final = frozenset(
    {
        errno.EADDRNOTAVAIL,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETRESET,
        errno.ENETUNREACH,
        errno.ENOTCONN,
    }
)
_EXHAUSTED: Final = frozenset(
    {
        errno.EDQUOT,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOBUFS,
        errno.ENOMEM,
        errno.ENOSPC,
    }
)


def from_operating_system(
    error: BaseException, layer: str, _now: float | None
) -> Verdict | None:
    """Classify by errno; a missing or forbidden file is an error of the stage."""
    if isinstance(error, MemoryError):
        return Verdict("runtime.worker.exhausted")
    if not isinstance(error, OSError):
        return None
    if error.errno in _EXHAUSTED:
        return Verdict("runtime.worker.exhausted")
    # asyncio joins failed connections to several addresses in an OSError without errno
    has_no_errno = type(error) is OSError and error.errno is None
    if error.errno in _NETWORK or has_no_errno:
        return Verdict(f"{layer}.connection.failed")
    return None
