"""JSON from outside, read strictly: weighed before it is parsed, and never ambiguous.

Of two equal keys one parser takes the first and another the last; a million brackets
fit into a megabyte. Whatever comes from a queue, a table or the bucket is read here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

KIB: Final = 1024
MIB: Final = 1024 * KIB

#: A string up to its end, or to the end of the text. Possessive: read once, whatever
#: it holds.
_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKETS: Final = re.compile(r"[\[\]{}]")
_OPENING: Final = frozenset("[{")
#: Halves of a character, as JSON may spell them.
_HALVES: Final = re.compile(r"\\u[dD][89a-fA-F]")
#: More than any number that we write; beyond it Python's own limit is not far.
_DIGITS: Final = 64


class JsonRefusedError(ValueError):
    """It is no JSON, or more than may be; the message quotes nothing of it."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much JSON may be: bytes, brackets within brackets, values in all."""

    size: int
    depth: int = 32
    nodes: int = 100_000


def read_json(content: bytes | str, bounds: Bounds) -> Any:
    """Return what a JSON text says.

    Raises:
        JsonRefusedError: It is too much, ambiguous, or no JSON.
    """
    text = require_bounded(content, bounds)
    try:
        found = _STRICT.decode(text)
    except JsonRefusedError:
        raise
    except (ValueError, RecursionError) as error:
        message = "it is no JSON"
        raise JsonRefusedError(message) from error
    if _HALVES.search(text):
        _require_whole_characters(found)
    return found


def require_bounded(content: bytes | str, bounds: Bounds) -> str:
    """Return the text of JSON that may be parsed: weighed, not read yet.

    Raises:
        JsonRefusedError: It is no UTF-8, too long, too deep, or too much.
    """
    if len(content) > bounds.size:
        message = f"it is longer than {bounds.size:,} bytes"
        raise JsonRefusedError(message)
    try:
        text = content.decode() if isinstance(content, bytes) else content
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeError as error:
        message = "it is no UTF-8"
        raise JsonRefusedError(message) from error
    if size > bounds.size:
        message = f"it is longer than {bounds.size:,} bytes"
        raise JsonRefusedError(message)
    if len(text) < bounds.nodes and text.count("[") + text.count("{") <= bounds.depth:
        return text  # so few characters, and brackets, cannot be too much
    bare = _STRING.sub("", text)
    if bare.count(",") + bare.count("[") + bare.count("{") >= bounds.nodes:
        message = f"it holds more than {bounds.nodes:,} values"
        raise JsonRefusedError(message)
    if _depth(_BRACKETS.findall(bare), bounds.depth) > bounds.depth:
        message = f"it is nested deeper than {bounds.depth}"
        raise JsonRefusedError(message)
    return text


def _depth(brackets: Sequence[str], most: int) -> int:
    """Return how deep brackets go; beyond the most it does not matter how far."""
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
        message = "it holds a key twice"
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
    """Refuse halves of characters that are not beside their other halves."""
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        message = "it holds half a character"
        raise JsonRefusedError(message) from error


#: Made once: it costs as much as what it reads, which is mostly a hundred bytes.
_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_constant=_no_number,
    parse_int=_whole,
    parse_float=_real,
)
