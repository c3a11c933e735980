"""Encode the values of stages as JSON, by the return annotation of the function.

A stage receives the decoded JSON of an earlier value, never the object itself. So a
first run sees what a resumed run sees, and no pipeline depends on state that a
checkpoint loses.

JSON uses the names of the fields, not their aliases: an alias may differ between
writing and reading.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import typing
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import BaseModel, RootModel, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from piecework.domain.mismatch import describe_mismatch, name_of, unfinished
from piecework.domain.records import MIB, Bounds, require_bounded
from piecework.errors import PermanentError

#: Bytes of a value as JSON; memory holds several copies of it at once.
VALUE_LIMIT = 16 * MIB
#: A value may be a long list of numbers. A deep value is a mistake.
BOUNDS = Bounds(VALUE_LIMIT, nodes=4_000_000)
#: Functions whose type is cached; bounded, because a stage may create functions.
FUNCTIONS_KEPT = 1_024


def encode(function: Callable[..., Any], value: Any) -> str:
    """Return a function's value as JSON.

    Raises:
        PermanentError: `runtime.value.unserialisable`: the value does not match the
            function's annotation; `runtime.value.too_large`.
    """
    name = name_of(function)
    if found := unfinished(value):
        raise PermanentError(
            f"{name} returned {found}.",
            code="runtime.value.unserialisable",
            next_step="Correct the function.",
        )
    try:
        adapter = result_type(function)
        # The serializer directly: the adapter's own method fills in a dozen defaults.
        content = adapter.serializer.to_json(value, round_trip=True, warnings="error")
        if b"null" in content:
            # NaN and infinity are written as null, which their own type does not read.
            adapter.validator.validate_json(content, by_alias=False, by_name=True)
    except (ValidationError, ValueError, TypeError) as error:
        where = describe_mismatch(adapter, value)
        message = f"The value of {name} does not match its return annotation"
        raise PermanentError(
            f"{message}: {where}." if where else f"{message}.",
            code="runtime.value.unserialisable",
            next_step="Correct the return annotation, or the returned value.",
        ) from error
    if len(content) > VALUE_LIMIT:
        message = f"The value of {name} has {len(content):,} bytes as JSON."
        raise PermanentError(message, code="runtime.value.too_large")
    return content.decode()


def decode(function: Callable[..., Any], text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        PermanentError: `runtime.value.unreadable`: the text does not match the
            function's return annotation, for example because a deployment changed the
            type during the job.
    """
    try:
        validator = result_type(function).validator
        require_bounded(text, BOUNDS)
        return validator.validate_json(text, by_alias=False, by_name=True)
    except ValueError as error:
        name = name_of(function)
        message = f"The stored value of {name} does not match its return annotation."
        raise PermanentError(
            message,
            code="runtime.value.unreadable",
            next_step="Deploy a type that also reads the old values.",
        ) from error


@functools.lru_cache(FUNCTIONS_KEPT)
def result_type(function: Callable[..., Any]) -> TypeAdapter[Any]:
    """Return the type of a function's result; any JSON without an annotation."""
    whole = inspect.unwrap(function)
    if isinstance(whole, functools.partial):
        whole = whole.func
    try:
        hints = typing.get_type_hints(whole, include_extras=True)
    except (NameError, TypeError):  # TypeError: an object that can be called
        hints = {}
    hint = hints.get("return", Any)
    return TypeAdapter(hint)


# ── write JSON that is equal for equal values in every process ────────────────
#
# A set has another order in each process, and the arguments of a call may contain sets
# at any depth. Written in that order, the key would differ in the worker that takes
# over a chunk. That worker would not find the earlier call, and would make it again.

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
