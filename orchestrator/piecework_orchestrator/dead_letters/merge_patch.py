"""JSON merge patches (RFC 7396)."""

from __future__ import annotations

import json
from typing import Any


def is_same_json(one: Any, other: Any) -> bool:
    """Return whether two values are the same JSON: 1, 1.0 and true differ."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


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
        if name not in old or not is_same_json(old[name], value)
    }
    return changed | {name: None for name in old if name not in new}
