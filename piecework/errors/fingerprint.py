"""Group dead letters by their cause: a hash of code, stage and message.

The group is only for display. It never decides a recovery, because it depends on the
message. The parts that differ between equal failures are removed first: URLs, paths,
quoted words, ids and numbers.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

DIGITS: Final = 12
#: Characters that count: a long message may be cut at another place each time.
CAUSE_LIMIT: Final = 200

# The order matters: a URL may contain a path, and a path may contain numbers.
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
    """Return 12 hex digits, equal for dead letters with the same cause."""
    parts = "\n".join((code, stage, normalize(message)))
    return hashlib.sha256(parts.encode()).hexdigest()[:DIGITS]


def normalize(message: str) -> str:
    """Return a message without the parts that differ between equal failures."""
    for mark, shape in _SHAPES:
        message = shape.sub(mark, message)
    return _SPACE.sub(" ", message).strip()[:CAUSE_LIMIT].casefold()
