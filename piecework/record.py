"""The fields of an item, read as what they have to be: anybody may have edited it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

from piecework.errors import PermanentError
from piecework.strict_json import MIB, Bounds, JsonRefusedError, read_json

S = TypeVar("S", bound=StrEnum)

UNREADABLE = "runtime.record.unreadable"
#: No number of ours is larger: loops go by some of them.
MAX_INT = 10**15
#: What reading an item raises that somebody edited, where no field was asked for here.
MALFORMED_ERRORS = (KeyError, TypeError, ValueError, AttributeError, OverflowError)

#: JSON within an item, or within a line of an object of ours: an error, a certificate.
BOUNDS = Bounds(4 * MIB, nodes=1_000_000)


def unreadable_error(what: str, why: str) -> PermanentError:
    """Return the refusal of something on record that is not as we write it."""
    return PermanentError(f"{what} {why}.", code=UNREADABLE)


def read_int(
    item: Mapping[str, Any], name: str, what: str, least: int = 0, most: int = MAX_INT
) -> int:
    """Return a whole number of an item.

    Raises:
        PermanentError: `runtime.record.unreadable`.
    """
    found = item.get(name)
    if type(found) is not int or not least <= found <= most:
        raise unreadable_error(what, f"has no sound {name!r}")
    return found


def read_text(item: Mapping[str, Any], name: str, what: str) -> str:
    """Return a text of an item.

    Raises:
        PermanentError: `runtime.record.unreadable`.
    """
    found = item.get(name)
    if not isinstance(found, str):
        raise unreadable_error(what, f"has no sound {name!r}")
    return found


def read_status(item: Mapping[str, Any], states: type[S], what: str) -> S:
    """Return the state that an item is in.

    Raises:
        PermanentError: `runtime.record.unreadable`.
    """
    try:
        return states(str(item.get("status")))
    except ValueError as error:
        raise unreadable_error(what, "has no sound 'status'") from error


def read_optional_text(item: Mapping[str, Any], name: str) -> str | None:
    """Return a text of an item that may be missing; anything else is as good as none.

    For what is only told on: it must not keep a chunk from ending.
    """
    found = item.get(name)
    return found if isinstance(found, str) else None


def read_optional_int(item: Mapping[str, Any], name: str) -> int | None:
    """Return an int field, or None if it is missing or malformed."""
    found = item.get(name)
    return found if type(found) is int else None


def read_document(
    content: str | bytes, what: str, bounds: Bounds = BOUNDS
) -> dict[str, Any]:
    """Return the JSON object that a field or an object of ours holds.

    Raises:
        PermanentError: `runtime.record.unreadable`.
    """
    found = read_value(content, what, bounds)
    if not isinstance(found, dict):
        raise unreadable_error(what, "is no JSON object")
    return found


def read_value(content: str | bytes, what: str, bounds: Bounds = BOUNDS) -> Any:
    """Return the JSON that a field or an object of ours holds.

    Raises:
        PermanentError: `runtime.record.unreadable`.
    """
    try:
        return read_json(content, bounds)
    except JsonRefusedError as error:
        raise unreadable_error(what, f"cannot be read: {error}") from error
