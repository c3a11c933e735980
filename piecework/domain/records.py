"""Read the fields of an item with type checks: a user may have edited the item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, Final, TypeVar

from piecework.domain.strict_json import MIB, Bounds, JsonRefusedError, read_json
from piecework.errors import PermanentError

S = TypeVar("S", bound=StrEnum)

UNREADABLE = "runtime.record.unreadable"
#: The largest accepted number; some numbers bound loops.
MAX_INT = 10**15
#: Errors of reading a malformed item without the functions of this module.
MALFORMED_ERRORS = (KeyError, TypeError, ValueError, AttributeError, OverflowError)

#: Bounds of JSON in an item or in a line of an object: an error, a certificate.
BOUNDS = Bounds(4 * MIB, nodes=1_000_000)


def unreadable_error(what: str, why: str) -> PermanentError:
    """Return the error for a malformed record, with the message "{what} {why}."."""
    return PermanentError(f"{what} {why}.", code=UNREADABLE)


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Name the record that a block reads, if it is malformed.

    Raises:
        PermanentError: `runtime.record.unreadable`.
    """
    try:
        yield
    except MALFORMED_ERRORS as error:
        why = f"cannot be read: {type(error).__name__}"
        raise unreadable_error(what, why) from error


def read_int(
    item: Mapping[str, Any], name: str, what: str, least: int = 0, most: int = MAX_INT
) -> int:
    """Return an int field of an item, from `least` to `most`.

    Raises:
        PermanentError: `runtime.record.unreadable`.
    """
    found = item.get(name)
    if type(found) is not int or not least <= found <= most:
        raise unreadable_error(what, f"has a missing or malformed {name!r}")
    return found


#: Microseconds since 1970 stay below it for 280 years.
LARGEST: Final = 2**53


def read_number(item: dict[str, Any], name: str) -> int:
    """Return a whole number of a record of the fleet, 0 without it.

    Raises:
        PermanentError: `runtime.record.unreadable`.
        TypeError: The item is not one.
    """
    what = "A record of the fleet"
    return read_int({name: 0} | item, name, what, least=-LARGEST, most=LARGEST)


def read_text(item: Mapping[str, Any], name: str, what: str) -> str:
    """Return a str field of an item.

    Raises:
        PermanentError: `runtime.record.unreadable`.
    """
    found = item.get(name)
    if not isinstance(found, str):
        raise unreadable_error(what, f"has a missing or malformed {name!r}")
    return found


def read_status(item: Mapping[str, Any], states: type[S], what: str) -> S:
    """Return the `status` field of an item as an enum.

    Raises:
        PermanentError: `runtime.record.unreadable`.
    """
    try:
        return states(str(item.get("status")))
    except ValueError as error:
        raise unreadable_error(what, "has a missing or malformed 'status'") from error


def read_optional_text(item: Mapping[str, Any], name: str) -> str | None:
    """Return a str field, or None if it is missing or malformed.

    For fields that are only reported: they must not keep a chunk from ending.
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
    """Parse JSON text and return the object in it.

    Raises:
        PermanentError: `runtime.record.unreadable`.
    """
    found = read_value(content, what, bounds)
    if not isinstance(found, dict):
        raise unreadable_error(what, "is not a JSON object")
    return found


def read_value(content: str | bytes, what: str, bounds: Bounds = BOUNDS) -> Any:
    """Parse JSON text and return its value.

    Raises:
        PermanentError: `runtime.record.unreadable`.
    """
    try:
        return read_json(content, bounds)
    except JsonRefusedError as error:
        raise unreadable_error(what, f"cannot be read: {error}") from error
