"""Parse key conditions: the partition of a query, and its range of sort keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from simulation.cloud.answers import InvalidError
from simulation.cloud.comparisons import IN_ORDER
from simulation.cloud.expressions import END, Reader
from simulation.cloud.partitions import Cut, beginning, between, compared, everything
from simulation.cloud.plans import Plan, check_names, demands_of, sections_of
from simulation.cloud.values import WireItem

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
