"""Condition expressions, read once and turned into functions."""

from __future__ import annotations

from collections.abc import Mapping

from simulation.cloud.comparisons import Test, read_comparison, read_operand
from simulation.cloud.expressions import END, Reader
from simulation.cloud.values import WireItem, WireValue, kind_of

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
