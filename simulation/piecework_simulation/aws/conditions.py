"""Condition expressions, read once and turned into functions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from piecework_simulation.aws.expressions import END, ORDERED, Reader
from piecework_simulation.aws.values import WireItem, WireValue, kind_of, rank

BEGINNING = frozenset({"S", "B"})


def read_condition(reader: Reader) -> Test:
    """Return the whole of an expression as one function."""
    test = _either(reader)
    if reader.word != END:
        raise reader.syntax(reader.word)
    return test


def _either(reader: Reader) -> Test:
    tests = [_all(reader)]
    while reader.skip("OR"):
        tests.append(_all(reader))
    if len(tests) == 1:
        return tests[0]
    first, *others = tests
    other = others[0]
    if len(others) == 1:
        return lambda item, values: first(item, values) or other(item, values)
    return lambda item, values: any(test(item, values) for test in tests)


def _all(reader: Reader) -> Test:
    tests = [_not(reader)]
    while reader.skip("AND"):
        tests.append(_not(reader))
    if len(tests) == 1:
        return tests[0]

    def every(item: Mapping[str, WireValue], values: WireItem) -> bool:
        for test in tests:  # noqa: SIM110 -- a generator costs more than the tests
            if not test(item, values):
                return False
        return True

    return every


def _not(reader: Reader) -> Test:
    if not reader.skip("NOT"):
        return _one(reader)
    test = _not(reader)
    return lambda item, values: not test(item, values)


def _one(reader: Reader) -> Test:
    if reader.skip("("):
        return _bracketed(reader)
    if reader.calls("attribute_exists"):
        name = reader.last(reader.path())
        return lambda item, _: name in item
    if reader.calls("attribute_not_exists"):
        name = reader.last(reader.path())
        return lambda item, _: name not in item
    if reader.calls("begins_with"):
        return _begins_with(reader)
    if reader.calls("contains"):
        return _contains(reader)
    return read_comparison(reader)


def _bracketed(reader: Reader) -> Test:
    begin = reader.mark
    test = _either(reader)
    if _wrapped(reader.between(begin, reader.mark)):
        raise reader.invalid("The expression has redundant parentheses;")
    reader.expect(")")
    return test


def _wrapped(words: list[str]) -> bool:
    """Return whether one pair of brackets encloses all words."""
    depth = 0
    for at, word in enumerate(words):
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth == 0:
            return at > 0 and at == len(words) - 1
    return False


def _begins_with(reader: Reader) -> Test:
    subject = read_operand(reader)
    reader.expect(",")
    if reader.word.startswith(":"):
        reader.demand(reader.word, BEGINNING, "begins_with")
    prefix = read_operand(reader)
    reader.expect(")")

    def test(item: Mapping[str, WireValue], values: WireItem) -> bool:
        whole, begin = subject.read(item, values), prefix.read(item, values)
        if whole is None or begin is None or kind_of(whole) != kind_of(begin):
            return False
        ((kind, content),) = whole.items()
        return kind in BEGINNING and bool(content.startswith(begin[kind]))

    return test


def _contains(reader: Reader) -> Test:
    subject = read_operand(reader)
    reader.expect(",")
    wanted = read_operand(reader)
    reader.expect(")")

    def test(item: Mapping[str, WireValue], values: WireItem) -> bool:
        whole, part = subject.read(item, values), wanted.read(item, values)
        if whole is None or part is None:
            return False
        ((kind, content),) = whole.items()
        if kind == "L":
            return part in content
        looked_for = part.get(kind.removesuffix("S") or "S")
        return kind in {"S", "B", "SS", "NS", "BS"} and (
            looked_for is not None and looked_for in content
        )

    return test


# ── parse the comparisons of a condition ──────────────────────────────────────
#
# A missing attribute equals nothing. Values of two types have no order.

Test: TypeAlias = Callable[[Mapping[str, WireValue], WireItem], bool]
Read: TypeAlias = Callable[[Mapping[str, WireValue], WireItem], WireValue | None]

IN_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MOST_IN_A_LIST = 100


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand: an attribute, a value of the request, or the size of an attribute."""

    read: Read
    name: str = ""
    key: str = ""


def read_comparison(reader: Reader) -> Test:
    """Parse the next comparison."""
    begin = reader.mark
    left = read_operand(reader)
    if reader.skip("IN"):
        return _in(reader, left)
    if reader.skip("BETWEEN"):
        return _between(reader, begin, left)
    sign = reader.take()
    if sign == ")":
        raise NotImplementedError("an operand in brackets")
    if sign not in {"=", "<>", *IN_ORDER}:
        raise reader.syntax(sign)
    middle = reader.mark
    right = read_operand(reader)
    if reader.between(begin, middle - 1) == reader.between(middle, reader.mark):
        raise reader.invalid(
            "The first operand must be distinct from the remaining operands for this"
            f" operator or function; operator: {sign}, first operand:"
            f" [{''.join(reader.between(middle, reader.mark))}]"
        )
    if sign == "=":
        return _equal(left, right)
    if sign == "<>":
        equal = _equal(left, right)
        return lambda item, values: not equal(item, values)
    reader.demand_ordered(begin, sign)
    reader.demand_ordered(middle, sign)
    return _ordered(left, IN_ORDER[sign], right)


def _equal(left: Operand, right: Operand) -> Test:
    if left.name and right.key:  # nearly every comparison: saves one call each
        name, key = left.name, right.key
        return lambda item, values: item.get(name) == values[key]

    def test(item: Mapping[str, WireValue], values: WireItem) -> bool:
        found = left.read(item, values)
        return found is not None and found == right.read(item, values)

    return test


def _ordered(
    left: Operand, in_order: Callable[[Any, Any], bool], right: Operand
) -> Test:
    read_left, read_right = left.read, right.read

    def test(item: Mapping[str, WireValue], values: WireItem) -> bool:
        one, other = read_left(item, values), read_right(item, values)
        if one is None or other is None:
            return False
        kind = kind_of(one)
        if kind not in ORDERED or kind not in other:
            return False
        return in_order(rank(one[kind], kind), rank(other[kind], kind))

    return test


def _in(reader: Reader, left: Operand) -> Test:
    reader.expect("(")
    members = [read_operand(reader).read]
    while reader.skip(","):
        members.append(read_operand(reader).read)
    reader.expect(")")
    if len(members) > MOST_IN_A_LIST:
        raise reader.invalid("The IN operator is provided with too many operands;")
    read = left.read

    def test(item: Mapping[str, WireValue], values: WireItem) -> bool:
        found = read(item, values)
        if found is not None:
            for member in members:
                if found == member(item, values):
                    return True
        return False

    return test


def _between(reader: Reader, begin: int, left: Operand) -> Test:
    low_at = reader.mark
    low = read_operand(reader)
    reader.expect("AND")
    high_at = reader.mark
    high = read_operand(reader)
    for at in (begin, low_at, high_at):
        reader.demand_ordered(at, "BETWEEN")
    if low.key and high.key:
        reader.bounds.append((low.key, high.key))
    above = _ordered(left, operator.ge, low)
    below = _ordered(left, operator.le, high)
    return lambda item, values: above(item, values) and below(item, values)


def read_operand(reader: Reader) -> Operand:
    """Parse the next operand."""
    if reader.word.startswith(":"):
        key = reader.value()
        return Operand(lambda _, values: values[key], key=key)
    if reader.calls("size"):
        name = reader.last(reader.path())
        return Operand(lambda item, _: _size(item.get(name)))
    name = reader.path()
    return Operand(lambda item, _: item.get(name), name=name)


def _size(value: WireValue | None) -> WireValue | None:
    if value is None or kind_of(value) in {"N", "BOOL", "NULL"}:
        return None
    (content,) = value.values()
    return {"N": str(len(content))}
