"""JSON merge patches (RFC 7396): apply one, and find the one between two values."""

from __future__ import annotations

from typing import Any


def merged(target: Any, patch: Any) -> Any:
    """Return the target as the patch makes it: `null` removes, objects merge."""
    if not isinstance(patch, dict):
        return patch
    found = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), value)
    return found


def difference(old: Any, new: Any) -> Any:
    """Return the patch that leads from one value to another.

    A `null` of the new value is what RFC 7396 cannot say: it reads as a removal.
    """
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    changed = {
        name: difference(old[name], value) if name in old else value
        for name, value in new.items()
        if name not in old or old[name] != value
    }
    return changed | {name: None for name in old if name not in new}
