"""Find the JSON in what a model wrote.

Models put JSON into a fence of Markdown, after a thought, or between sentences. Text
around a value is dropped. A value inside a thought is a draft, and is not read. A value
that is broken, or a part of a broken one, is not read: what is missing there cannot be
known.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

#: White space, and the mark of a byte order.
_AROUND: Final = " \t\r\n\ufeff"
_FENCE: Final = re.compile(r"\A```(?:json)?\s*|\s*```\Z", re.IGNORECASE)
#: The start of a value, or a tag of a thought. A thought ends at the tag of its name.
_MARK: Final = re.compile(
    r"[{\[]|<(?P<end>/?)(?P<name>think|thinking|thought|reasoning)(?:\s[^<>]*)?>",
    re.IGNORECASE,
)
#: An escape of a JSON text: a pair of halves of a character, one half, or any other.
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}"
    r"|(u[dD][89a-fA-F][\da-fA-F]{2})|.)",
    re.DOTALL,
)
#: Brackets that may be no JSON, such as in `[1` or `[sic]`; a text has few of them.
_MOST_BRACKETS: Final = 1_000


def without_fence(text: str) -> str:
    """Return a text without a fence and a mark around it; no half of a character."""
    bare = _FENCE.sub("", text.strip(_AROUND)).strip(_AROUND)
    return _ESCAPE.sub(lambda m: "\\ufffd" if m[1] else m[0], bare)


def has_half(text: str) -> bool:
    """Return whether a JSON text has an escaped half of a character."""
    return any(each[1] for each in _ESCAPE.finditer(text))


def values_in(text: str) -> list[str]:
    """Return the outermost objects and lists outside of thoughts.

    Empty: there are none, or a bracket outside of them is left open.
    """
    decoder = json.JSONDecoder(parse_int=str, parse_float=str)
    found: list[str] = []
    outside, at, misses = "", 0, 0
    while mark := _MARK.search(text, at):
        start, end = mark.span()
        outside += text[at:start]
        at = end
        if mark["end"]:  # some servers drop the tag at the start of a thought
            found, outside = [], ""
        elif mark["name"]:
            at = _end_of_thought(text, end, mark["name"])
        elif "{" in outside or misses == _MOST_BRACKETS:
            outside += mark[0]
        else:
            try:
                _, at = decoder.raw_decode(text, start)
                found.append(text[start:at])
            except (ValueError, RecursionError):
                outside += mark[0]
                misses += 1
    outside += text[at:]
    is_closed = outside.count("[") == outside.count("]")
    return found if is_closed and not {"{", "}"} & {*outside} else []


def _end_of_thought(text: str, at: int, name: str) -> int:
    """Return where a thought ends; one without a tag at its end ends with the text."""
    end = re.compile(rf"</{name}\s*>", re.IGNORECASE).search(text, at)
    return end.end() if end else len(text)


class _DoubledKeyError(Exception):
    """A key occurs twice in one object."""


def doubled_key(text: str) -> str | None:
    """Return a key that occurs twice in one object of a JSON text; None: there is none.

    Parsers disagree on which of its values counts.
    """
    try:
        json.loads(text, object_pairs_hook=_object, parse_int=str, parse_float=str)
    except _DoubledKeyError as error:
        return str(error.args[0])
    except (ValueError, RecursionError):
        return None
    return None


def _object(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise _DoubledKeyError(key)
        seen.add(key)
