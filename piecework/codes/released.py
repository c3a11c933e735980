"""The registry as a release is held to it: what must never be renamed or reclassed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from piecework.codes.registry import REGISTRY

CLASSES: Final[Mapping[str, str]] = {
    code: str(row.error_class) for code, row in REGISTRY.items()
}


def released() -> str:
    """Return the list to check in with a release: one code and its class a line."""
    return "".join(f"{code} {known}\n" for code, known in sorted(CLASSES.items()))


def broken_promises(listed: str, classes: Mapping[str, str] = CLASSES) -> list[str]:
    """Say which codes of a released list are gone, or are of another class now."""
    before = dict(line.split() for line in listed.splitlines())
    return [
        f"{code}: {was} -> {classes.get(code, 'gone')}"
        for code, was in before.items()
        if classes.get(code) != was
    ]
