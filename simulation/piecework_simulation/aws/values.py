"""Handle DynamoDB values: canonical form, size and order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context, Decimal, InvalidOperation
from typing import Any, TypeAlias

from piecework_simulation.aws.errors import InvalidError

WireValue: TypeAlias = dict[str, Any]
WireItem: TypeAlias = dict[str, WireValue]

SETS = {"SS": "string", "NS": "number", "BS": "binary"}
DIGITS = 38
#: Wide enough to add the largest number to the smallest without rounding.
EXACT = Context(prec=300)
INVALID = "One or more parameter values were invalid: "


def canonical(value: WireValue) -> WireValue:
    """Return a value in its one spelling, a copy of what can be changed."""
    # Nearly all values are strings and whole numbers in canonical form already.
    if len(value) == 1 and "S" in value:
        return value
    ((kind, content),) = value.items()
    if kind == "N":
        text = number_text(content)
        return value if text == content else {"N": text}
    if kind == "NULL" and content is not True:
        raise InvalidError(f"{INVALID}Null attribute value types must be true")
    if kind in SETS:
        return {kind: _canonical_set(kind, content)}
    if kind == "M":
        return {"M": canonical_item(content)}
    if kind == "L":
        content = [canonical(part) for part in content]
    elif kind not in {"S", "B", "BOOL", "NULL"}:
        raise NotImplementedError(f"values of the type {kind}")
    return {kind: content}


def canonical_item(item: Mapping[str, WireValue]) -> WireItem:
    """Return an item with each value in its one spelling."""
    return {name: canonical(value) for name, value in item.items()}


def _canonical_set(kind: str, members: list[Any]) -> list[Any]:
    if not members:
        raise InvalidError(f"{INVALID}An {SETS[kind]} set  may not be empty")
    if kind == "NS":
        members = sorted((number_text(text) for text in members), key=Decimal)
    else:
        members = sorted(members)
    if len(set(members)) != len(members):
        shown = ", ".join(str(member) for member in members)
        raise InvalidError(f"{INVALID}Input collection [{shown}] contains duplicates.")
    return members


def number_text(text: str) -> str:
    """Return a number as DynamoDB returns it."""
    if text.isdigit() and len(text) <= DIGITS and text.isascii():
        return text.lstrip("0") or "0"
    try:
        return _normal(Decimal(text))
    except InvalidOperation as error:
        message = f"The parameter cannot be converted to a numeric value: {text}"
        raise InvalidError(message) from error


def _normal(number: Decimal) -> str:
    """Check a number's size and precision; return it without idle zeros."""
    if not number.is_finite():
        message = f"The parameter cannot be converted to a numeric value: {number}"
        raise InvalidError(message)
    if not number:
        return "0"
    number = number.normalize(EXACT)
    if len(number.as_tuple().digits) > DIGITS:
        raise InvalidError(
            "Attempting to store more than 38 significant digits in a Number"
        )
    size = number.adjusted()
    if size > 125:  # noqa: PLR2004 -- DynamoDB's range, as is the next
        raise InvalidError(
            "Number overflow. Attempting to store a number with magnitude larger than"
            " supported range"
        )
    if size < -130:  # noqa: PLR2004
        raise InvalidError(
            "Number underflow. Attempting to store a number with magnitude smaller"
            " than supported range"
        )
    return format(number, "f")


def plus(left: str, right: str, sign: int = 1) -> str:
    """Return the sum, or with -1 the difference, of two canonical numbers."""
    try:
        total = int(left) + sign * int(right)
    except ValueError:
        return _normal(EXACT.add(Decimal(left), sign * Decimal(right)))
    return str(total) if abs(total) < 10**DIGITS else _normal(Decimal(total))


def rank(content: Any, kind: str) -> Any:
    """Return what orders the content of a value among those of its type."""
    if kind != "N":
        return content
    try:
        return int(content)
    except ValueError:
        return Decimal(content)


def kind_of(value: Mapping[str, Any]) -> str:
    """Return the type of a value: S, N, BOOL and so on."""
    (kind,) = value
    return kind


def item_size(item: Mapping[str, WireValue]) -> int:
    """Return the bytes that DynamoDB counts for an item."""
    size = 0
    for name, value in item.items():
        size += text_size(name) + value_size(value)
    return size


def value_size(value: WireValue) -> int:
    """Return the bytes that DynamoDB counts for a value."""
    ((kind, content),) = value.items()
    if kind == "S":
        return len(content) if content.isascii() else len(content.encode())
    count = SIZES.get(kind)
    return 1 if count is None else count(content)


def text_size(text: str) -> int:
    """Return the bytes of a text."""
    return len(text) if text.isascii() else len(text.encode())


def number_size(text: str) -> int:
    """Return the bytes of a number: two digits a byte, and one more."""
    if text.isdigit():
        return (len(text.rstrip("0")) + 1) // 2 + 1
    digits = text.lstrip("-").replace(".", "").strip("0")
    return (len(digits) + 1) // 2 + 1 + text.startswith("-")


def _list_size(members: list[WireValue]) -> int:
    return 3 + len(members) + sum(map(value_size, members))


def _map_size(members: WireItem) -> int:
    return 3 + len(members) + item_size(members)


SIZES: Mapping[str, Callable[[Any], int]] = {
    "N": number_size,
    "B": len,
    "SS": lambda members: sum(map(text_size, members)),
    "NS": lambda members: sum(map(number_size, members)),
    "BS": lambda members: sum(map(len, members)),
    "M": _map_size,
    "L": _list_size,
}
