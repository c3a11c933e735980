"""JSON merge patches (RFC 7396), and the fields of a new payload that nothing reads.

A model ignores what it does not know. So a misspelt field would vanish, and its chunk
would run, and be paid for, with the old value.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from pydantic import BaseModel

from piecework_orchestrator.submit.intake.columns import meant, unread, unread_parts

#: The names from a payload down to a field of it.
Path: TypeAlias = tuple[str, ...]


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


# ── what no one reads ─────────────────────────────────────────────────────────


def unstored(value: Any, old: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield the fields of a new value that the stored payload does not have.

    With each comes the stored field that may be meant; empty: it is far from all. An
    empty object and a value of another kind have no fields to compare with. The parts
    of a list are alike, so a part may have each field that one of the stored parts has.
    """
    if isinstance(value, dict) and isinstance(old, dict) and (old or not path):
        free = {name.casefold(): name for name in old if name not in value}
        for name, part in value.items():
            if name in old:
                yield from unstored(part, old[name], (*path, name))
            else:
                near = difflib.get_close_matches(name.casefold(), free, n=1)
                yield (*path, name), free[near[0]] if near else ""
    elif isinstance(value, list) and isinstance(old, list):
        known: dict[str, Any] = {}
        for part in old:
            known = part | known if isinstance(part, dict) else known
        for number, part in enumerate(value):
            if known:
                yield from unstored(part, known, (*path, str(number)))


def unread_fields(
    value: Mapping[str, Any], read: BaseModel
) -> Iterator[tuple[Path, str]]:
    """Yield the fields of a new value that no model reads, each with what is meant.

    `read` is what validation made of the new payload.
    """
    for path, model, names in unread_parts(read, value, ()):
        for name in unread(model, names):
            yield (*path, name), meant(model, name, names)
