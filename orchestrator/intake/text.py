"""Plain text and markdown: decoded by what the file says of itself, never guessed."""

from __future__ import annotations

import codecs

from orchestrator.intake.limits import Limits
from piecework.errors import UsageError

# In this order: the mark of UTF-32 begins with that of UTF-16.
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def read(data: bytes, name: str, _: Limits) -> str:
    """Return the text, its lines ended by line feeds.

    Raises:
        UsageError: `input.file.unreadable`, naming the first byte that is no text.
    """
    mark, encoding = next(
        (known for known in MARKS if data.startswith(known[0])), (b"", "utf-8")
    )
    try:
        said = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        raise _unreadable(name, encoding, len(mark) + error.start) from error
    if "\0" in said:
        # Never in prose; in UTF-16 without a mark, every other byte.
        before = said[: said.index("\0")].encode(encoding)
        raise _unreadable(name, encoding, len(mark) + len(before))
    return said.replace("\r\n", "\n").replace("\r", "\n")


def _unreadable(name: str, encoding: str, offset: int) -> UsageError:
    return UsageError(
        f"{name} is not {encoding.upper()} text: see the byte at offset {offset:,}.",
        code="input.file.unreadable",
        next_step="Save it as UTF-8.",
        file=name,
        offset=offset,
    )
