"""Python values to DynamoDB's wire format and back.

Written out because boto3's own serialiser costs more CPU than the request it feeds,
and because it answers with `Decimal`; our numbers are whole.
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
        TypeError: For what no item holds: floats above all, which would not come
            back as they were written.
    """
    if isinstance(value, str):
        return {"S": value}
    if type(value) is int:
        return {"N": str(value)}
    return _less_often(value)


def _less_often(value: Any) -> dict[str, Any]:
    """Return the value of an attribute that is no plain text or number."""
    match value:
        case bool():
            return {"BOOL": value}
        case int():
            return {"N": str(value)}
        case set() | frozenset() if value and all(isinstance(v, int) for v in value):
            return {"NS": [str(v) for v in sorted(value)]}
        case Mapping():
            return {"M": to_item(value)}
        case list() | tuple():
            return {"L": [to_value(v) for v in value]}
        case _:
            message = f"no item holds a {type(value).__name__}"
            raise TypeError(message)


def from_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item's attributes as Python values."""
    # Most are texts, and the others whole numbers: those are read right here.
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
    """Return a number: ours are whole, and mostly the same few."""
    return int(content) if content.lstrip("-").isdigit() else float(content)


def from_value(value: Mapping[str, Any]) -> Any:  # noqa: PLR0911 -- a return a type
    """Return one attribute as a Python value."""
    ((kind, content),) = value.items()
    match kind:
        case "S" | "BOOL":
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


# The placeholders of reserved attribute names in DynamoDB expressions.

#: Attribute names that DynamoDB reserves, such as `status`, are written `#status`.
MARKED = re.compile(r"#(\w+)")


@lru_cache(maxsize=256)
def marked_names(*expressions: str) -> Mapping[str, str]:
    """Return the attribute name of each placeholder in the expressions.

    The number of different expressions is small, so each is parsed once.
    """
    found = {f"#{name}": name for text in expressions for name in MARKED.findall(text)}
    return MappingProxyType(found)
