"""Decode plain text and markdown by the byte order mark, else as UTF-8; never guess."""

from __future__ import annotations

import codecs

from orchestrator.intake.limits import Limits
from piecework.errors import UsageError

# The order matters: the mark of UTF-32 starts with the mark of UTF-16.
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def read(data: bytes, name: str, _: Limits) -> str:
    """Return the text with line feeds at the ends of lines.

    Raises:
        UsageError: `input.file.unreadable`, with the offset of the first invalid byte.
    """
    mark, encoding = next(
        (known for known in BYTE_ORDER_MARKS if data.startswith(known[0])),
        (b"", "utf-8"),
    )
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        raise _unreadable(name, encoding, len(mark) + error.start) from error
    if "\0" in text:
        # Prose never contains it; UTF-16 without a mark has it in every other byte.
        before = text[: text.index("\0")].encode(encoding)
        raise _unreadable(name, encoding, len(mark) + len(before))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _unreadable(name: str, encoding: str, offset: int) -> UsageError:
    return UsageError(
        f"{name} is not {encoding.upper()} text: see the byte at offset {offset:,}.",
        code="input.file.unreadable",
        next_step="Save it as UTF-8.",
        file=name,
        offset=offset,
    )
