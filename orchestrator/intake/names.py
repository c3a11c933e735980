"""Names of files as text, for what is stored and shown: theirs are any bytes."""

from __future__ import annotations


def readable(name: str) -> str:
    """Return a name whose bytes that are no UTF-8 became a mark."""
    return name.encode(errors="surrogateescape").decode(errors="replace")
