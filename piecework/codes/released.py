"""The codes of a release: they must not be renamed, removed or reclassified."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from piecework.codes.registry import REGISTRY

CLASSES: Final[Mapping[str, str]] = {
    code: str(row.error_class) for code, row in REGISTRY.items()
}


def released() -> str:
    """Return the list to commit with a release: one code and its class in each line."""
    return "".join(f"{code} {known}\n" for code, known in sorted(CLASSES.items()))


def incompatible_codes(listed: str, classes: Mapping[str, str] = CLASSES) -> list[str]:
    """Return the codes of a released list that are gone or have another class."""
    before = dict(line.split() for line in listed.splitlines())
    return [
        f"{code}: {was} -> {classes.get(code, 'gone')}"
        for code, was in before.items()
        if classes.get(code) != was
    ]
