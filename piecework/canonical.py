"""Write JSON that is equal for equal values in every process: keys are made of it.

A set has another order in each process, and the arguments of a call may contain sets at
any depth. Written in that order, the key would differ in the worker that takes over a
chunk. That worker would not find the earlier call, and would make it again.
"""

from __future__ import annotations

import dataclasses
import json
import unicodedata
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, RootModel
from pydantic_core import to_jsonable_python

#: The types of most arguments; their values contain no other values.
_ATOMS: Final = frozenset({str, int, float, bool, type(None)})
_LISTS: Final = (list, tuple)
_SETS: Final = (set, frozenset)
#: Made once: an encoder costs as much as encoding a hundred bytes.
_CANONICAL: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def canonical_json(value: Any) -> str:
    """Return JSON that is equal for equal values: sorted keys, NFC, no spaces.

    Raises:
        ValueError: JSON cannot represent the value.
    """
    text = _CANONICAL.encode(to_jsonable_python(_sort_sets(value)))
    normal = unicodedata.normalize("NFC", text)
    if normal == text:
        return text
    # A composed key may sort at another place.
    return _CANONICAL.encode(json.loads(normal))


def _sort_sets(value: Any) -> Any:
    """Return a value with its sets sorted."""
    if isinstance(value, _LISTS):
        return [v if type(v) in _ATOMS else _sort_sets(v) for v in value]
    if isinstance(value, Mapping):
        return {k: v if type(v) in _ATOMS else _sort_sets(v) for k, v in value.items()}
    if isinstance(value, _SETS):
        return sorted((_sort_sets(item) for item in value), key=canonical_json)
    if isinstance(value, BaseModel) or dataclasses.is_dataclass(value):
        return _sort_plain(value, to_jsonable_python(value))
    return value


def _sort_plain(value: Any, plain: Any) -> Any:
    """Return the plain form of a value, with the lists made of its sets sorted.

    A model may define its own serialization. Where the plain form does not match the
    value any more, it is kept as it is.
    """
    if type(plain) in _ATOMS:
        return plain
    if isinstance(value, RootModel):
        return _sort_plain(value.root, plain)
    if isinstance(plain, list):
        if not isinstance(value, _LISTS + _SETS) or len(value) != len(plain):
            return plain
        items = [*map(_sort_plain, value, plain)]
        if isinstance(value, _SETS):
            items.sort(key=canonical_json)
        return items
    members = _members(value)
    return {
        k: _sort_plain(members[k], p) if k in members else p for k, p in plain.items()
    }


def _members(value: Any) -> Mapping[str, Any]:
    """Return the members of a value, by the names in its serialization."""
    if isinstance(value, Mapping):
        return {k if isinstance(k, str) else str(k): v for k, v in value.items()}
    if isinstance(value, BaseModel):
        fields = type(value).model_fields.items()
        held = {f.serialization_alias or n: getattr(value, n) for n, f in fields}
        return held | (value.model_extra or {})
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return {}
