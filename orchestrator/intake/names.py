"""Names of files as valid text, because a file name may contain any bytes."""

from __future__ import annotations


def printable_name(name: str) -> str:
    """Return the name with a replacement character for bytes that are not UTF-8."""
    return name.encode(errors="surrogateescape").decode(errors="replace")
