"""Parse a request's expressions once, and cache the result.

A simulator sends the same few expressions millions of times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from piecework_simulation.aws.conditions import IN_ORDER, Test, read_condition
from piecework_simulation.aws.errors import InvalidError
from piecework_simulation.aws.expressions import END, Reader
from piecework_simulation.aws.partitions import (
    Cut,
    beginning,
    between,
    compared,
    everything,
)
from piecework_simulation.aws.updates import Update, read_update
from piecework_simulation.aws.values import (
    WireItem,
    canonical,
    kind_of,
    rank,
    text_size,
)

TYPE_NAMES = {
    "S": "STRING",
    "N": "NUMBER",
    "B": "BINARY",
    "SS": "STRING_SET",
    "NS": "NUMBER_SET",
    "BS": "BINARY_SET",
    "BOOL": "BOOLEAN",
    "NULL": "NULL",
    "M": "MAP",
    "L": "LIST",
}


@dataclass(frozen=True, slots=True)
class Demand:
    """The types that an operator accepts for a value of the request."""

    section: str
    value: str
    types: frozenset[str]
    operator: str

    def check(self, values: WireItem) -> None:
        """Raise if the value has another type."""
        kind = kind_of(values[self.value])
        if kind not in self.types:
            raise InvalidError(
                f"Invalid {self.section}: Incorrect operand type for operator or"
                f" function; operator: {self.operator}, operand type:"
                f" {TYPE_NAMES[kind]}"
            )


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a BETWEEN: of one type, and in order."""

    section: str
    low: str
    high: str

    def check(self, values: WireItem) -> None:
        """Raise if the bounds differ in type or are in the wrong order."""
        low, high = values[self.low], values[self.high]
        kind = kind_of(low)
        if kind not in high:
            raise InvalidError(
                f"Invalid {self.section}: The BETWEEN operator requires same data type"
                " for lower and upper bounds"
            )
        if rank(low[kind], kind) > rank(high[kind], kind):
            raise InvalidError(
                f"Invalid {self.section}: The BETWEEN operator requires upper bound to"
                " be greater than or equal to lower bound"
            )


@dataclass(frozen=True, slots=True)
class Plan:
    """The parsed expressions of a request, and the values that they require.

    Attributes:
        touched: The attributes that the update changes, each with the bytes of its
            name.
        sections: The values, each with the expression that uses it.
    """

    test: Test | None
    update: Update | None
    touched: tuple[tuple[str, int], ...]
    sections: Mapping[str, str]
    demands: tuple[Demand | Bounds, ...]


def prepare(request: Mapping[str, Any]) -> tuple[Plan, WireItem]:
    """Return a request's plan and its values, or raise the error that AWS returns."""
    names, values = (
        request.get("ExpressionAttributeNames"),
        request.get("ExpressionAttributeValues"),
    )
    made = plan(
        request.get("UpdateExpression"),
        request.get("ConditionExpression"),
        None if names is None else frozenset(names.items()),
    )
    return made, check_values(made, values)


def check_values(made: Plan, values: Mapping[str, Any] | None) -> WireItem:
    """Return a request's values in canonical form; each must be used and defined."""
    if values is None:
        found: WireItem = {}
    elif values:
        try:
            found = {
                # Most values are strings; the check is cheaper than the call.
                name: value if "S" in value else canonical(value)
                for name, value in values.items()
            }
        except InvalidError as error:
            message = f"ExpressionAttributeValues contains invalid value: {error}"
            raise InvalidError(message) from error
    else:
        raise InvalidError("ExpressionAttributeValues must not be empty")
    if found.keys() != made.sections.keys():
        raise _not_matched(made, found)
    for demand in made.demands:
        demand.check(found)
    return found


def _not_matched(made: Plan, values: WireItem) -> InvalidError:
    for name, section in made.sections.items():
        if name not in values:
            return InvalidError(
                f"Invalid {section}: An expression attribute value used in expression"
                f" is not defined; attribute value: {name}"
            )
    return _unused("Values", set(values) - set(made.sections), idle=not made.sections)


def _unused(what: str, names: set[str], *, idle: bool) -> InvalidError:
    """Return the error of placeholders that no expression names."""
    if idle:
        return InvalidError(
            f"ExpressionAttribute{what} can only be specified when using expressions"
        )
    keys = ", ".join(sorted(names))
    return InvalidError(
        f"Value provided in ExpressionAttribute{what} unused in expressions:"
        f" keys: {{{keys}}}"
    )


@cache
def plan(
    update: str | None, condition: str | None, names: frozenset[tuple[str, str]] | None
) -> Plan:
    """Parse a write's expressions, with the names of its placeholders."""
    known = dict(names or ())
    readers: list[Reader] = []
    changed = test = None
    if update is not None:
        readers.append(Reader("UpdateExpression", update, known))
        changed = read_update(readers[-1])
    if condition is not None:
        readers.append(Reader("ConditionExpression", condition, known))
        test = read_condition(readers[-1])
    check_names(names, readers)
    names_touched = () if changed is None else changed.touched
    touched = tuple((name, text_size(name)) for name in names_touched)
    return Plan(test, changed, touched, sections_of(readers), demands_of(readers))


def check_names(
    names: frozenset[tuple[str, str]] | None, readers: list[Reader]
) -> None:
    """Raise if no expression uses a given name."""
    if names is None:
        return
    if not names:
        raise InvalidError("ExpressionAttributeNames must not be empty")
    unused = {name for name, _ in names}.difference(*(r.names for r in readers))
    if unused:
        raise _unused("Names", unused, idle=not readers)


def sections_of(readers: list[Reader]) -> dict[str, str]:
    """Return the values that the expressions use, each with where it is used."""
    return {name: reader.section for reader in readers for name in reader.values}


def demands_of(readers: list[Reader]) -> tuple[Demand | Bounds, ...]:
    """Return the requirements of the expressions' operators on the values."""
    found: list[Demand | Bounds] = []
    for reader in readers:
        found += [Demand(reader.section, *demand) for demand in reader.demands]
        found += [Bounds(reader.section, *bounds) for bounds in reader.bounds]
    return tuple(found)


# ── parse key conditions ──────────────────────────────────────────────────────

MakeCut: TypeAlias = Callable[[WireItem], Cut]
TEXT = frozenset({"S"})


@dataclass(frozen=True, slots=True)
class KeyCondition:
    """A query's key condition: the value of `pk`, and how to cut by `sk`."""

    plan: Plan
    pk: str
    cut: MakeCut


@cache
def read_key_condition(
    text: str, names: frozenset[tuple[str, str]] | None
) -> KeyCondition:
    """Parse a key condition, with the names of its placeholders."""
    reader = Reader("KeyConditionExpression", text, dict(names or ()))
    found: dict[str, tuple[str, MakeCut]] = {}
    while True:
        name, sign, make = _term(reader)
        if name in found:
            raise InvalidError(
                "KeyConditionExpressions must only contain one condition per key"
            )
        found[name] = sign, make
        if not reader.skip("AND"):
            break
    if reader.word != END:
        raise reader.syntax(reader.word)
    sign, _ = found.pop("pk", ("", None))
    if not sign:
        raise InvalidError("Query condition missed key schema element: pk")
    if not sign.startswith(":"):
        raise InvalidError("Query key condition not supported")
    _, cut = found.pop("sk", ("", lambda _: everything))
    if found:
        raise InvalidError("Query condition missed key schema element: sk")
    check_names(names, [reader])
    plan = Plan(None, None, (), sections_of([reader]), demands_of([reader]))
    return KeyCondition(plan, sign, cut)


def _term(reader: Reader) -> tuple[str, str, MakeCut]:
    """Return a key, the value that it equals if it is an equation, and the cut."""
    if reader.word == "(":
        raise NotImplementedError("a key condition in brackets")
    if reader.calls("begins_with"):
        name = reader.path()
        reader.expect(",")
        prefix = _text(reader, "begins_with")
        reader.expect(")")
        return name, "begins_with", lambda values: beginning(values[prefix]["S"])
    name = reader.path()
    if reader.skip("BETWEEN"):
        low = _text(reader, "BETWEEN")
        reader.expect("AND")
        high = _text(reader, "BETWEEN")
        reader.bounds.append((low, high))
        return name, "BETWEEN", lambda v: between(v[low]["S"], v[high]["S"])
    sign = reader.take()
    if sign not in {"=", *IN_ORDER}:
        raise InvalidError(f"Invalid operator used in KeyConditionExpression: {sign}")
    value = _text(reader, sign)
    equals = value if sign == "=" else sign
    return name, equals, lambda values: compared(sign, values[value]["S"])


def _text(reader: Reader, operator: str) -> str:
    reader.demand(reader.word, TEXT, operator)
    return reader.value()
