"""The versions that a process says, from what is installed."""

from __future__ import annotations

from importlib.metadata import version
from platform import python_version


def version_line() -> str:
    """Return the versions of piecework and of Python as a line of text."""
    return f"piecework {version('piecework')} (Python {python_version()})"
