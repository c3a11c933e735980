"""AWS's published rules for what a request is billed as; no I/O, no product.

DynamoDB: a write unit is 1 KB of an item, a consistent read unit 4 KB, each rounded
up. SQS: a request is 64 KB of payload. Sizes are those of the wire format.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

WRITE_BYTES = 1024
READ_BYTES = 4096
SQS_BYTES = 64 * 1024
#: What each element of a transaction costs, of what it costs alone.
TRANSACTION = 2
#: Digits of a number that share a byte, and the byte beside them.
DIGITS = 2
#: Bytes of a list or a map, and of each of its elements.
NEST, ELEMENT = 3, 1


def write_units(size: int) -> int:
    """Return the units of writing an item of so many bytes: the larger of its sizes."""
    return max(1, -(-size // WRITE_BYTES))


def read_units(size: int) -> int:
    """Return the units of a consistent read; of a query the sum of its items counts."""
    return max(1, -(-size // READ_BYTES))


def sqs_requests(size: int) -> int:
    """Return how many requests a payload of so many bytes is billed as."""
    return max(1, -(-size // SQS_BYTES))


def item_size(item: Mapping[str, Mapping[str, Any]]) -> int:
    """Return the bytes of an item: its names, its values, its nesting."""
    # Names and texts are most of it: those are measured all at once.
    texts = [value["S"] for value in item.values() if "S" in value]
    size = text_size("".join(item)) + text_size("".join(texts))
    if len(texts) < len(item):
        size += sum([value_size(v) for v in item.values() if "S" not in v])
    return size


def value_size(value: Mapping[str, Any]) -> int:  # noqa: PLR0911 -- a return a type
    """Return the bytes of one attribute's value."""
    ((kind, content),) = value.items()
    match kind:
        case "S":
            return text_size(content)
        case "N":
            return number_size(content)
        case "SS":
            return sum(map(text_size, content))
        case "NS":
            return sum(map(number_size, content))
        case "B":
            return len(content)
        case "BS":
            return sum(map(len, content))
        case "M":
            return NEST + len(content) * ELEMENT + item_size(content)
        case "L":
            return NEST + sum(ELEMENT + value_size(each) for each in content)
        case _:  # BOOL and NULL
            return 1


def text_size(text: str) -> int:
    """Return the bytes of a text; ASCII, as nearly all of ours is, needs no copy."""
    return len(text) if text.isascii() else len(text.encode())


@lru_cache(maxsize=4096)
def number_size(number: str) -> int:
    """Return the bytes of a number: one for two significant digits, and one."""
    digits = number.lstrip("-").replace(".", "").strip("0")
    return -(-len(digits) // DIGITS) + 1
