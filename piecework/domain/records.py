"""Read the fields of an item with type checks: a user may have edited the item."""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NoReturn, TypeVar

from piecework.errors import PermanentError, SchemaTooNewError

# ── schema versions of items and messages ─────────────────────────────────────
#
# A version rises only if a reader of the version before would act wrongly. Optional
# fields are added without a new version. Each claim writes its own version on its
# chunk. So the rows of a chunk are never newer than the chunk, and no older worker can
# claim it again.

Item = TypeVar("Item", bound=Mapping[str, Any])

#: The version of items, in the attribute `v`; an item without it has version 1.
SCHEMA: Final = 1
#: The version of messages, in the field `v`.
MESSAGES: Final = 1


def is_newer(item: Mapping[str, Any]) -> bool:
    """Return whether an item has a later version than this code reads."""
    version = item.get("v")
    return type(version) is int and version > SCHEMA


def require_known(item: Item) -> Item:
    """Return the item if this code can read it.

    Raises:
        SchemaTooNewError: The item has a later version.
    """
    if is_newer(item):
        message = (
            f"An item has schema version {item['v']}; this code reads up to {SCHEMA}."
        )
        raise SchemaTooNewError(message)
    return item


# ── parse untrusted JSON strictly ─────────────────────────────────────────────
#
# Parsers disagree on duplicate keys: one takes the first, another the last. And a
# megabyte holds a million brackets. All JSON from a queue, a table or the bucket is
# read here.

#: How deep a value or an argument may be nested; pydantic reads JSON up to 200.
DEPTH: Final = 190

KIB: Final = 1024
MIB: Final = 1024 * KIB

#: A string up to its end, or to the end of the text. Possessive, so that each character
#: is read once.
_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKETS: Final = re.compile(r"[\[\]{}]")
_OPENING: Final = frozenset("[{")
#: Escaped surrogates: halves of a character.
_HALVES: Final = re.compile(r"\\u[dD][89a-fA-F]")
#: Longer than any number that piecework writes, and below Python's own limit.
_DIGITS: Final = 64


class JsonRefusedError(ValueError):
    """The text is not JSON, or exceeds its bounds; the message does not quote it."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a JSON text: bytes, nesting depth, and number of values."""

    size: int
    depth: int = 32
    nodes: int = 100_000


def read_json(content: bytes | str, bounds: Bounds, *, finite: bool = True) -> Any:
    """Parse a JSON text and return its value.

    A stored payload or result need not be `finite`: it may have NaN and infinity.

    Raises:
        JsonRefusedError: It exceeds the bounds, is ambiguous, or is not JSON.
    """
    text = require_bounded(content, bounds)
    try:
        found = (_STRICT if finite else _STORED).decode(text)
    except JsonRefusedError:
        raise
    except (ValueError, RecursionError) as error:
        message = "it is not JSON"
        raise JsonRefusedError(message) from error
    if _HALVES.search(text):
        _require_whole_characters(found)
    return found


def require_bounded(content: bytes | str, bounds: Bounds) -> str:
    """Return the text of JSON that is within the bounds; it is not parsed yet.

    Raises:
        JsonRefusedError: It is not UTF-8, too long, too deep, or has too many values.
    """
    if len(content) > bounds.size:
        message = f"it is longer than {bounds.size:,} bytes"
        raise JsonRefusedError(message)
    try:
        text = content.decode() if isinstance(content, bytes) else content
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeError as error:
        message = "it is not UTF-8"
        raise JsonRefusedError(message) from error
    if size > bounds.size:
        message = f"it is longer than {bounds.size:,} bytes"
        raise JsonRefusedError(message)
    if len(text) < bounds.nodes and text.count("[") + text.count("{") <= bounds.depth:
        return text  # too short to exceed the bounds
    bare = _STRING.sub("", text)
    if bare.count(",") + bare.count("[") + bare.count("{") >= bounds.nodes:
        message = f"it holds more than {bounds.nodes:,} values"
        raise JsonRefusedError(message)
    if _depth(_BRACKETS.findall(bare), bounds.depth) > bounds.depth:
        message = f"it is nested deeper than {bounds.depth}"
        raise JsonRefusedError(message)
    return text


def _depth(brackets: Sequence[str], most: int) -> int:
    """Return the depth of brackets; stop counting beyond `most`."""
    depth = deepest = 0
    for bracket in brackets:
        depth += 1 if bracket in _OPENING else -1
        deepest = max(deepest, depth)
        if deepest > most:
            break
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        message = "it has a duplicate key"
        raise JsonRefusedError(message)
    return found


def _no_number(_: str) -> NoReturn:
    message = "it holds NaN or Infinity"
    raise JsonRefusedError(message)


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS:
        message = f"it holds a number of more than {_DIGITS} digits"
        raise JsonRefusedError(message)
    return int(digits)


def _real(digits: str) -> float:
    found = float(digits)
    if not math.isfinite(found):
        _no_number(digits)
    return found


def _require_whole_characters(found: Any) -> None:
    """Refuse unpaired surrogates."""
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        message = "it holds an unpaired surrogate"
        raise JsonRefusedError(message) from error


#: Created once: creating it costs as much as parsing a hundred bytes, a usual text.
_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_constant=_no_number,
    parse_int=_whole,
    parse_float=_real,
)
_STORED: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_whole, parse_float=_real
)


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


# ── compressed texts of an item ───────────────────────────────────────────────
#
# DynamoDB bills an item by the kibibyte, for each write and for each month. The answers
# of a model shrink to about half.

#: Bytes of a compressed text once it is read: far above what Piecework writes.
UNPACKED: Final = Bounds(4 * MIB)


def packed(document: Mapping[str, Any]) -> bytes:
    """Return a document as JSON in the zlib format: `zlib.decompress` reads it."""
    content = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return zlib.compress(content.encode(), 9)


def read_packed(item: Mapping[str, Any], name: str, what: str) -> dict[str, Any]:
    """Return the document that `packed` has written.

    Raises:
        PermanentError: `runtime.record.unreadable`.
    """
    found = item.get(name)
    if not isinstance(found, bytes):
        raise unreadable_error(what, f"has a missing or malformed {name!r}")
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(found, UNPACKED.size)
    except zlib.error as error:
        raise unreadable_error(what, f"cannot be unpacked: {error}") from error
    if not unpacking.eof:
        raise unreadable_error(what, "is cut off, or too large once it is unpacked")
    return read_document(content, what, UNPACKED)
