"""The version of piecework."""

from __future__ import annotations

from importlib.metadata import version
from platform import python_version


def versions() -> dict[str, str]:
    """Return the versions of piecework and Python."""
    return {"piecework": version("piecework"), "python": python_version()}


def version_line() -> str:
    """Return both versions as a line for people."""
    ours, python = versions().values()
    return f"piecework {ours} (Python {python})"
