"""Read the output of a batch line by line, whatever a provider sends.

Memory is that of one line. A line that is too long is dropped while it is read.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from piecework.domain.strict_json import Bounds, JsonRefusedError, require_bounded
from piecework.llm.batches.port import RowUnreadable

#: Bytes of a line. An answer has at most some 100,000 tokens, of some bytes each.
MOST_LINE: Final = 10 * 1024 * 1024
#: An answer may state the odds of each token, in lists of objects.
BOUNDS: Final = Bounds(MOST_LINE, depth=64, nodes=2_000_000)
#: Bytes that are kept of a line that cannot be read.
KEPT: Final = 4_096
#: Letters of a row's name at each provider.
_LONGEST_ID: Final = 64


@dataclass(frozen=True, slots=True)
class Line:
    """A line of an output, without its end.

    Attributes:
        is_whole: Whether it was short enough to be kept; else its first bytes are.
    """

    content: bytes
    is_whole: bool = True


async def lines_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[Line]:
    """Yield each line that has a content; the last one needs no end."""
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        for part in chunk.splitlines(keepends=True):
            ends = part.endswith(b"\n")
            size += len(part)
            if size <= MOST_LINE or not parts:
                parts.append(part[:MOST_LINE])
            if ends:
                if (line := _line(parts, size)) is not None:
                    yield line
                parts, size = [], 0
    if (line := _line(parts, size)) is not None:
        yield line


def _line(parts: list[bytes], size: int) -> Line | None:
    if size > MOST_LINE:
        return Line(b"".join(parts)[:KEPT], is_whole=False)
    content = b"".join(parts).strip()
    return Line(content) if content else None


def row_of(line: Line, key: str = "custom_id") -> dict[str, Any] | RowUnreadable:
    """Return the object of a line; it has a name of 1 to 64 letters under `key`."""
    if not line.is_whole:
        return RowUnreadable(line.content, f"it is longer than {MOST_LINE:,} bytes")
    try:
        row = json.loads(require_bounded(line.content, BOUNDS))
    except JsonRefusedError as error:
        return unreadable(line, str(error))
    except (ValueError, RecursionError):
        return unreadable(line, "it is not JSON")
    if not isinstance(row, dict):
        return unreadable(line, "it is not an object")
    name = row.get(key)
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_ID:
        return unreadable(line, f"it has no {key}")
    return row


def unreadable(line: Line, why: str) -> RowUnreadable:
    """Return the outcome of a line that cannot be read."""
    return RowUnreadable(line.content[:KEPT], why)
