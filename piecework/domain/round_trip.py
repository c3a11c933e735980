"""Say where a value would come back from its JSON as another one.

A worker that continues a chunk has only what was stored. A value that changes on its
way through JSON would give the two workers two truths. So it is refused where it is
made. Private attributes are not stored, and not compared.

Like all messages about values, these name fields and types, never the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from numbers import Number
from typing import Any, Final

from pydantic import BaseModel

from piecework.domain.mismatch import at, masked, type_name

#: Stands for a part that one of two values lacks.
ABSENT: Final = object()
#: Types whose own comparison is exact, and cannot hide a part.
EXACT: Final = frozenset({bool, bytes, float, int, str, type(None)})


class NotKeptError(ValueError):
    """A value would come back as another one; the text says where, and as what."""


def require_kept_value(value: Any, read: Any) -> None:
    """Refuse a value that was read from its JSON as another one.

    Raises:
        NotKeptError: It says where they differ.
    """
    if found := difference((), value, read):
        raise NotKeptError(found)


def difference(path: tuple[Any, ...], value: Any, read: Any) -> str:
    """Return where two values differ, and how; empty: they are equal.

    The types of the parts count, too: a subclass of a model has more than its base.
    A member of a `StrEnum` equals its text, and an integer the same real number.
    """
    if value is read or is_plainly_equal(value, read):
        return ""
    if (inner := paired(value, read)) is not None:
        found = (difference((*path, name), *both) for name, *both in inner)
        return next(filter(None, found), "")
    if is_equal(value, read):
        return ""
    if value is ABSENT or read is ABSENT:
        return f"{at(path)} it would come back with other fields"
    if class_of(value) is class_of(read):
        return f"{at(path)} it would come back as another {type_name(value)}"
    kinds = f"{type_name(value)}, which would come back as {type_name(read)}"
    return f"{at(path)} it has {kinds}"


def is_plainly_equal(value: Any, read: Any) -> bool:
    """Return whether two values are equal texts or numbers, or lists or dicts of these.

    Only of these does Python's own comparison, which is fast, see every part.
    """
    kind = type(value)
    if kind is not type(read):
        return False
    if kind in EXACT:
        return bool(value == read)
    if kind is list:
        own = list(map(type, value))
        return EXACT.issuperset(own) and value == read and own == list(map(type, read))
    if kind is dict and value == read:
        own = [*map(type, value), *map(type, value.values())]
        others = [*map(type, read), *map(type, read.values())]
        return EXACT.issuperset(own) and own == others
    return False


def paired(value: Any, read: Any) -> Iterator[tuple[Any, Any, Any]] | None:
    """Return the parts of two values by their names; None: they have no common parts.

    The keys of two mappings are parts, too: an integer comes back as a text.
    """
    if isinstance(value, BaseModel) or is_dataclass(value):
        return paired_fields(value, read) if class_of(value) is class_of(read) else None
    if isinstance(value, dict) and isinstance(read, dict):
        return paired_items(value, read)
    for each in (list, tuple):
        if isinstance(value, each) and isinstance(read, each):
            both = zip_longest(value, read, fillvalue=ABSENT)
            return ((number, *two) for number, two in enumerate(both))
    return None


def paired_fields(value: Any, read: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the fields of two values of one class; a model may have further ones."""
    if not isinstance(value, BaseModel):
        for name in (field.name for field in fields(value)):
            yield name, getattr(value, name, ABSENT), getattr(read, name, ABSENT)
        return
    mine, others = vars(value), vars(read)
    for name in type(read).model_fields:
        both = mine.get(name, ABSENT), others.get(name, ABSENT)
        if not is_plainly_equal(*both):  # most fields are
            yield name, *both
    if value.__pydantic_extra__ or read.__pydantic_extra__:
        yield from paired_items(value.__pydantic_extra__, read.__pydantic_extra__)


def paired_items(
    value: dict[Any, Any] | None, read: dict[Any, Any] | None
) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the values of two mappings by their keys, or keys that differ."""
    value, read = value or {}, read or {}
    if value.keys() == read.keys():
        for name, other in read.items():
            yield name, value[name], other
        return
    for pair in zip_longest(value, read, fillvalue=ABSENT):
        yield "[key]", *pair


def class_of(value: Any) -> Any:
    """Return the class of a value: of a generic model, the one without its types."""
    known = getattr(type(value), "__pydantic_generic_metadata__", None) or {}
    return known.get("origin") or type(value)


def is_equal(value: Any, read: Any) -> bool:
    """Return whether two values without common parts are equal.

    An object that has no comparison of its own is judged by its fields, or by nothing:
    its serializer and its validator are the user's own.
    """
    if not is_comparable(value, read):
        return False
    if isinstance(value, datetime) and value.tzinfo and read.tzinfo:
        return bool(value.astimezone(UTC) == read.astimezone(UTC))  # a zone's offset
    kind: Any = type(value)
    try:
        if value == read or (value != value and read != read):  # noqa: PLR0124 -- NaN
            return True
    except (TypeError, ValueError):  # an array compares each of its elements
        return kind is type(read)
    own_comparison: Any = kind.__eq__
    if kind is not type(read) or own_comparison is not object.__eq__:
        return False
    parts = getattr(value, "__dict__", {}), getattr(read, "__dict__", {})
    return not difference((), *parts)


def is_comparable(value: Any, read: Any) -> bool:
    """Return whether two values may be equal, by their types.

    Models and dataclasses may not: of one class, their fields were compared.
    """
    if isinstance(value, BaseModel) or is_dataclass(value):
        return False
    numbers = isinstance(value, Number) and isinstance(read, Number)
    return numbers or isinstance(read, type(value)) or isinstance(value, type(read))


def require_unmasked(content: bytes, value: Any) -> None:
    """Refuse a value with a secret that its JSON masks.

    Raises:
        NotKeptError: It says where the secret is.
    """
    if found := masked(content, value):
        raise NotKeptError(found)
