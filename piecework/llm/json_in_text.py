"""Find the JSON in what a model wrote.

Models put JSON into a fence of Markdown, after a thought, or between sentences. Text
around a value is dropped. A value that is broken, or a part of a broken one, is not
read: what is missing there cannot be known.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

#: White space, and the mark of a byte order.
_AROUND: Final = " \t\r\n\ufeff"
_FENCE: Final = re.compile(r"\A```(?:json)?\s*|\s*```\Z", re.IGNORECASE)
#: All up to the end of the last thought; some servers drop the tag at its start.
_THOUGHT: Final = re.compile(
    r"\A.*</(?:think|thinking|thought|reasoning)>", re.DOTALL | re.IGNORECASE
)
#: An escape of a JSON text: a pair of halves of a character, one half, or any other.
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}"
    r"|(u[dD][89a-fA-F][\da-fA-F]{2})|.)",
    re.DOTALL,
)
#: Brackets that may be no JSON, such as in `[1` or `[sic]`; a text has few of them.
_MOST_BRACKETS: Final = 100


def without_fence(text: str) -> str:
    """Return a text without a fence and a mark around it; no half of a character."""
    bare = _FENCE.sub("", text.strip(_AROUND)).strip(_AROUND)
    return _ESCAPE.sub(lambda m: "\\ufffd" if m[1] else m[0], bare)


def has_half(text: str) -> bool:
    """Return whether a JSON text has an escaped half of a character."""
    return any(each[1] for each in _ESCAPE.finditer(text))


def values_in(text: str) -> list[str]:
    """Return the texts of the objects and lists in a text; empty: none, or a doubt."""
    thought = _THOUGHT.match(text)
    after = _values(text[thought.end() :]) if thought else []
    return after or _values(text)


def _values(text: str) -> list[str]:
    """Return the outermost values, unless a bracket outside of them is left open."""
    decoder = json.JSONDecoder(parse_int=str, parse_float=str)
    found, outside, at = [], [], 0
    for _ in range(_MOST_BRACKETS):
        starts = [where for each in "{[" if (where := text.find(each, at)) >= 0]
        if not starts:
            break
        start = min(starts)
        try:
            _, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            if text[start] == "{":
                return []
            end = start + 1
            outside.append(text[at:end])
        else:
            found.append(text[start:end])
            outside.append(text[at:start])
        at = end
    outside.append(text[at:])
    rest = "".join(outside)
    is_closed = rest.count("[") == rest.count("]")
    return found if is_closed and not {"{", "}"} & {*rest} else []


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
