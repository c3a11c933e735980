"""JSON merge patches (RFC 7396): apply a patch, and compute one from two values."""

from __future__ import annotations

from typing import Any


def apply_patch(target: Any, patch: Any) -> Any:
    """Return the target with the patch applied: `null` removes, objects merge."""
    if not isinstance(patch, dict):
        return patch
    found = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = apply_patch(found.get(name), value)
    return found


def make_patch(old: Any, new: Any) -> Any:
    """Return the patch that turns the old value into the new one.

    RFC 7396 cannot express a `null` in the new value, because `null` means removal.
    """
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    changed = {
        name: make_patch(old[name], value) if name in old else value
        for name, value in new.items()
        if name not in old or old[name] != value
    }
    return changed | {name: None for name in old if name not in new}
