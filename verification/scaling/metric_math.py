"""CloudWatch's metric math, as far as the templates use it, by its documentation.

A series is a value a minute, oldest first; None stands for a missing value. Where the
pages do not say what a missing value does, the answer here is the less convenient one.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

Series: TypeAlias = list[float | None]
Value: TypeAlias = Series | float
Operator: TypeAlias = Callable[[float, float], float]

OPERATORS: dict[type[ast.AST], Operator] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}


def evaluate(
    expressions: Mapping[str, str], wanted: str, given: Mapping[str, Series]
) -> Series:
    """Return the series of an expression, which may name others and metrics."""

    def named(name: str) -> Value:
        if name in given:
            return given[name]
        return worked_out(parsed(expressions[name]), named)

    found = named(wanted)
    length = len(next(iter(given.values())))
    return found if isinstance(found, list) else [found] * length


def parsed(expression: str) -> ast.expr:
    """Return an expression's tree: the syntax is Python's, but for two words."""
    words = {"AND": "and", "OR": "or"}
    text = re.sub(r"\b(AND|OR)\b", lambda match: words[match[1]], expression)
    return ast.parse(text, mode="eval").body


def worked_out(  # noqa: PLR0911 -- a return a form
    node: ast.expr, named: Callable[[str], Value]
) -> Value:
    """Return the value of a part of an expression."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
            return float(-number)
        case ast.Name(id=name):
            return named(name)
        case (
            ast.BinOp(left=left, op=op, right=right)
            | ast.Compare(left=left, ops=[op], comparators=[right])
        ):
            sides = worked_out(left, named), worked_out(right, named)
            return both(OPERATORS[type(op)], *sides)
        case ast.BoolOp(op=op, values=values):
            parts = [worked_out(value, named) for value in values]
            return joined(parts, all if isinstance(op, ast.And) else any)
        case ast.Call(func=ast.Name(id="IF"), args=args):
            return chosen(*(worked_out(arg, named) for arg in args))
        case ast.Call(func=ast.Name(id="FILL"), args=[what, ast.Name(id="REPEAT")]):
            return repeated(series(worked_out(what, named)))
        case ast.Call(func=ast.Name(id="FILL"), args=[what, by]):
            return filled(series(worked_out(what, named)), worked_out(by, named))
        case ast.Call(func=ast.Name(id="MAX"), args=[ast.List(elts=parts)]):
            return largest([series(worked_out(part, named)) for part in parts])
    raise NotImplementedError(ast.unparse(node))


def both(apply: Operator, a: Value, b: Value) -> Value:
    """Apply an operator to each minute; division by zero drops the minute.

    If one of two series misses a value, it counts as 0. If both miss it, or the other
    is a number, the result has no value.
    """
    if not isinstance(a, list) and not isinstance(b, list):
        return apply(a, b)
    strict = not (isinstance(a, list) and isinstance(b, list))
    return [of_minute(apply, x, y, strict=strict) for x, y in pairs(a, b)]


def of_minute(
    apply: Operator, x: float | None, y: float | None, *, strict: bool
) -> float | None:
    """Return one minute's value."""
    missing = x is None, y is None
    if all(missing) or (strict and any(missing)):
        return None
    try:
        return float(apply(x or 0.0, y or 0.0))
    except ZeroDivisionError:
        return None


def joined(parts: list[Value], quantifier: Callable[[list[bool]], bool]) -> Value:
    """Return 1 where all, or any, are true; what is missing is not."""
    rows = zip(*(series(part) for part in parts), strict=True)
    return [float(quantifier([bool(x) for x in row])) for row in rows]


def chosen(condition: Value, then: Value, otherwise: Value | None = None) -> Value:
    """Return IF: 0 where it is true and misses its value, none where it is not."""
    conditions = series(condition)
    nothing: Series = [None] * len(conditions)
    thens = then if isinstance(then, list) else [then] * len(conditions)
    others = nothing if otherwise is None else otherwise
    others = others if isinstance(others, list) else [others] * len(conditions)
    rows = zip(conditions, thens, others, strict=True)
    return [None if c is None else (t or 0.0) if c else o for c, t, o in rows]


def repeated(values: Series) -> Series:
    """Return the values, each missing one as the last before it."""
    last: float | None = None
    found: Series = []
    for value in values:
        last = last if value is None else value
        found.append(last)
    return found


def filled(values: Series, by: Value) -> Series:
    """Return the values, each missing one as told; a series of nothing stays so."""
    if all(value is None for value in values):
        return values
    return [y if x is None else x for x, y in pairs(values, by)]


def largest(parts: list[Series]) -> Series:
    """Return the largest value of each minute; what is missing does not count."""
    rows = zip(*parts, strict=True)
    return [max((x for x in row if x is not None), default=None) for row in rows]


def pairs(a: Value, b: Value) -> list[tuple[float | None, float | None]]:
    """Return two values minute by minute; a number is the same in each."""
    length = len(a) if isinstance(a, list) else len(series(b))
    left = a if isinstance(a, list) else [a] * length
    right = b if isinstance(b, list) else [b] * length
    return list(zip(left, right, strict=True))


def series(value: Value) -> Series:
    """Return a value that has to be a series."""
    if not isinstance(value, list):
        raise TypeError("a series is needed, not a number")
    return value
