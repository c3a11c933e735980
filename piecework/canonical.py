"""JSON that is equal for equal values, in every process: what keys are made of.

A set has another order in each process. One may stand anywhere in what a call is given,
within a model, too; were it written as it comes, whoever takes over would find no call
that was made before, and make it again.
"""

from __future__ import annotations

import dataclasses
import json
import unicodedata
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, RootModel
from pydantic_core import to_jsonable_python

#: What most arguments of a call are, and what holds nothing.
_ATOMS: Final = frozenset({str, int, float, bool, type(None)})
_LISTS: Final = (list, tuple)
_SETS: Final = (set, frozenset)
#: Made once: it costs as much as what it writes, which is mostly a hundred bytes.
_CANONICAL: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def canonical_json(value: Any) -> str:
    """Return JSON that is equal for equal values: sorted keys, NFC, no spaces.

    Raises:
        ValueError: For what JSON does not hold.
    """
    text = _CANONICAL.encode(to_jsonable_python(_ordered(value)))
    normal = unicodedata.normalize("NFC", text)
    if normal == text:
        return text
    # Composed, a name may stand elsewhere among the others.
    return _CANONICAL.encode(json.loads(normal))


def _ordered(value: Any) -> Any:
    """Return a value with its sets in order."""
    if isinstance(value, _LISTS):
        return [v if type(v) in _ATOMS else _ordered(v) for v in value]
    if isinstance(value, Mapping):
        return {k: v if type(v) in _ATOMS else _ordered(v) for k, v in value.items()}
    if isinstance(value, _SETS):
        return sorted((_ordered(item) for item in value), key=canonical_json)
    if isinstance(value, BaseModel) or dataclasses.is_dataclass(value):
        return _as(value, to_jsonable_python(value))
    return value


def _as(value: Any, plain: Any) -> Any:
    """Return the JSON that a value became, with what came of its sets in order.

    Models say how they are written: where that is no longer as they are, it stays.
    """
    if type(plain) in _ATOMS:
        return plain
    if isinstance(value, RootModel):
        return _as(value.root, plain)
    if isinstance(plain, list):
        if not isinstance(value, _LISTS + _SETS) or len(value) != len(plain):
            return plain
        items = [*map(_as, value, plain)]
        if isinstance(value, _SETS):
            items.sort(key=canonical_json)
        return items
    members = _members(value)
    return {k: _as(members[k], p) if k in members else p for k, p in plain.items()}


def _members(value: Any) -> Mapping[str, Any]:
    """Return what a value holds, by the names that it is written under."""
    if isinstance(value, Mapping):
        return {k if isinstance(k, str) else str(k): v for k, v in value.items()}
    if isinstance(value, BaseModel):
        fields = type(value).model_fields.items()
        held = {f.serialization_alias or n: getattr(value, n) for n, f in fields}
        return held | (value.model_extra or {})
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return {}
