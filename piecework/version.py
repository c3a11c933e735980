"""Which version this is."""

from __future__ import annotations

from importlib.metadata import version
from platform import python_version


def versions() -> dict[str, str]:
    """Return Piecework's version, and that of the Python which runs it."""
    return {"piecework": version("piecework"), "python": python_version()}


def version_line() -> str:
    """Return both as a line for people."""
    ours, python = versions().values()
    return f"piecework {ours} (Python {python})"
