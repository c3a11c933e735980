"""Convert Python values to DynamoDB's wire format and back.

The serialiser of boto3 costs more CPU than the rest of the request. It returns
`Decimal`, but the numbers of the tables are integers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any


def to_item(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item; attributes that are None are left out."""
    return {name: to_value(v) for name, v in values.items() if v is not None}


def to_value(value: Any) -> dict[str, Any]:
    """Return one attribute value.

    Raises:
        TypeError: An item cannot hold the type. A float is refused because it would
            not return as it was written.
    """
    if isinstance(value, str):
        return {"S": value}
    if type(value) is int:
        return {"N": str(value)}
    return _less_often(value)


def _less_often(value: Any) -> dict[str, Any]:
    """Return the value of an attribute that is neither a text nor a number."""
    match value:
        case bool():
            return {"BOOL": value}
        case int():
            return {"N": str(value)}
        case bytes():
            return {"B": value}
        case set() | frozenset() if value and all(isinstance(v, int) for v in value):
            return {"NS": [str(v) for v in sorted(value)]}
        case Mapping():
            return {"M": to_item(value)}
        case list() | tuple():
            return {"L": [to_value(v) for v in value]}
        case _:
            message = f"An item cannot hold a {type(value).__name__}."
            raise TypeError(message)


def from_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item's attributes as Python values."""
    # Most values are texts or integers: reading them here avoids a call for each.
    return {
        name: value["S"]
        if "S" in value
        else number(value["N"])
        if "N" in value
        else from_value(value)
        for name, value in item.items()
    }


@lru_cache(maxsize=4096)
def number(content: str) -> int | float:
    """Return a number; almost all are integers, and few different ones."""
    return int(content) if content.lstrip("-").isdigit() else float(content)


def from_value(value: Mapping[str, Any]) -> Any:  # noqa: PLR0911 -- one return for each type
    """Return one attribute as a Python value."""
    ((kind, content),) = value.items()
    match kind:
        case "S" | "BOOL" | "B":
            return content
        case "N":
            return number(content)
        case "NS":
            return {int(number) for number in content}
        case "SS":
            return set(content)
        case "M":
            return from_item(content)
        case "L":
            return [from_value(v) for v in content]
        case "NULL":
            return None
        case _:
            return content


# ── placeholders of reserved attribute names in DynamoDB expressions ──────────

#: Attribute names that DynamoDB reserves, such as `status`, are written `#status`.
MARKED = re.compile(r"#(\w+)")


@lru_cache(maxsize=256)
def marked_names(*expressions: str) -> Mapping[str, str]:
    """Return the attribute name of each placeholder in the expressions.

    The number of different expressions is small, so each is parsed once.
    """
    found = {f"#{name}": name for text in expressions for name in MARKED.findall(text)}
    return MappingProxyType(found)
