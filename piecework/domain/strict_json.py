"""Parse untrusted JSON strictly.

Parsers disagree on duplicate keys: one takes the first, another the last. And a
megabyte holds a million brackets. All JSON from a queue, a table or the bucket is
read here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

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
