"""Format numbers with two or three digits and a unit."""

from __future__ import annotations

import math
from typing import Final

KIB: Final = 1_024
UNITS: Final = (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0))


def duration(seconds: float) -> str:
    """Return a time in its largest unit of which it has two."""
    if seconds < 1:
        return "under 1 s"
    for name, length in UNITS:
        if seconds >= 2 * length or name == "s":
            return f"{rounded(seconds / length)} {name}"
    return "never"


def size(count: float) -> str:
    """Return a number of bytes."""
    for name in ("B", "KB", "MB"):
        if count < KIB:
            return f"{rounded(count)} {name}"
        count /= KIB
    return f"{rounded(count)} GB"


def number(count: float, digits: int | None = None) -> str:
    """Return a number with commas, to so many digits."""
    if digits is not None:
        step = 10 ** (math.floor(math.log10(count)) + 1 - digits)
        count = math.floor(count / step) * step
    return f"{round(count):,}"


def rounded(count: float) -> str:
    """Return a number with one decimal if it is small, and has one."""
    text = f"{count:.1f}" if count < 10 else f"{count:,.0f}"  # noqa: PLR2004
    return text.removesuffix(".0")
