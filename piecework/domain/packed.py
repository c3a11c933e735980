"""Compressed texts of an item.

DynamoDB bills an item by the kibibyte, for each write and for each month. The answers
of a model shrink to about half.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

from piecework.domain.records import read_document, unreadable_error
from piecework.domain.strict_json import MIB, Bounds

#: Bytes of a compressed text once it is read: far above what Piecework writes.
UNPACKED: Final = Bounds(4 * MIB)


def packed(document: Mapping[str, Any]) -> bytes:
    """Return a document as JSON in the zlib format: `zlib.decompress` reads it."""
    content = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return zlib.compress(content.encode(), 9)


def read_packed(
    item: Mapping[str, Any], name: str, what: str, bounds: Bounds = UNPACKED
) -> dict[str, Any]:
    """Return the document that `packed` has written.

    Raises:
        PermanentError: `runtime.record.unreadable`.
    """
    found = item.get(name)
    if not isinstance(found, bytes):
        raise unreadable_error(what, f"has a missing or malformed {name!r}")
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(found, bounds.size)
    except zlib.error as error:
        raise unreadable_error(what, f"cannot be unpacked: {error}") from error
    if not unpacking.eof:
        raise unreadable_error(what, "is cut off, or too large once it is unpacked")
    return read_document(content, what, bounds)
