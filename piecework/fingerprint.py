"""Which dead letters died of the same thing: a hash of code, stage and cause.

It only groups letters for people: no recovery is ever decided by it, for it reads the
message. What differs from one death to the next is taken out of the message first:
addresses, paths, quoted words, ids and numbers.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

DIGITS: Final = 12
#: Characters of a cause that count: a long message is cut elsewhere each time.
CAUSE_LIMIT: Final = 200

# In this order: an address may hold a path, and a path may hold numbers.
_SHAPES: Final = tuple(
    (mark, re.compile(pattern))
    for mark, pattern in (
        ("<url>", r"\b[a-zA-Z][\w+.-]*://[^\s'\"<>]+"),
        ("<text>", r"\"[^\"\n]*\"|`[^`\n]*`|“[^”\n]*”|(?<!\w)'[^'\n]*'(?!\w)"),
        ("<path>", r"(?<![\w<])[~.]{0,2}(?:/[\w.@+-]+)+/?|\b[A-Za-z]:\\[^\s'\"]+"),
        ("<hex>", r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"),
        ("<hex>", r"\b0[xX][0-9a-fA-F]+\b"),
        ("<hex>", r"\b(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}\b"),
        ("<n>", r"\d+(?:[.,:]\d+)*"),
    )
)
_SPACE: Final = re.compile(r"\s+")


def fingerprint(code: str, stage: str, message: str) -> str:
    """Return 12 hex digits that are equal for deaths of the same cause."""
    parts = "\n".join((code, stage, cause(message)))
    return hashlib.sha256(parts.encode()).hexdigest()[:DIGITS]


def cause(message: str) -> str:
    """Return what a message says of the cause, without what differs each time."""
    for mark, shape in _SHAPES:
        message = shape.sub(mark, message)
    return _SPACE.sub(" ", message).strip()[:CAUSE_LIMIT].casefold()
