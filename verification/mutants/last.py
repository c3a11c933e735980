"""Forget the last item of a page, of a group or of a batch.

A bound is one too small, so that only a full page loses an item. A loop leaves out the
last of several items, so that a test with one item does not notice.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from verification.mutants.mutant import Mutant, scopes, span
from verification.mutants.paths import sources

BUT_LAST = "(lambda found: found[:-1] if len(found) > 1 else found)([*{}])"
#: A comparison of a length, and the one beside it.
BESIDE = {ast.GtE: ">", ast.Gt: ">=", ast.LtE: "<", ast.Lt: "<="}


def last_mutants(root: Path) -> Iterator[Mutant]:
    """Yield every bound that is one too small, and every loop without its last item."""
    for path in sources(root):
        source = (root / path).read_text()
        tree = ast.parse(source)
        where = scopes(tree)
        for node in ast.walk(tree):
            for expression, what, text in changes(node, source):
                start, end = span(expression, source)
                line, scope = expression.lineno, where[expression]
                yield Mutant("last", path, line, scope, what, start, end, text)


def changes(node: ast.AST, source: str) -> Iterator[tuple[ast.expr, str, str]]:
    """Yield the expressions to replace, the change in words, and the new text."""
    match node:
        case ast.Slice(upper=ast.expr() as upper) if not is_plain(upper):
            yield upper, f"one less than `{ast.unparse(upper)}`", less(upper, source)
        case ast.Call(func=ast.Name(id="range"), args=[*_, _] as args):
            stop = args[0] if len(args) == 1 else args[1]
            if not is_plain(stop):
                yield stop, f"one less than `{ast.unparse(stop)}`", less(stop, source)
        case ast.For(iter=items) | ast.comprehension(iter=items, is_async=0):
            if not is_counted(items):
                text = BUT_LAST.format(f"({text_of(items, source)})")
                yield items, f"without the last of `{ast.unparse(items)}`", text
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            if type(op) in BESIDE and (is_length(left) or is_length(right)):
                text = " ".join(
                    [text_of(left, source), BESIDE[type(op)], text_of(right, source)]
                )
                yield node, f"`{ast.unparse(node)}` as `{BESIDE[type(op)]}`", text


def less(bound: ast.expr, source: str) -> str:
    return f"({text_of(bound, source)}) - 1"


def is_plain(bound: ast.expr) -> bool:
    """Return whether a bound is a number: such a slice shortens a text."""
    return isinstance(bound, ast.Constant | ast.UnaryOp)


def is_counted(items: ast.expr) -> bool:
    """Return whether a loop is over a range, which has a bound, or over a display."""
    match items:
        case ast.Call(func=ast.Name(id="range" | "count")):
            return True
    return isinstance(items, ast.Tuple | ast.List | ast.Set | ast.Constant)


def is_length(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="len")):
            return True
    return False


def text_of(node: ast.expr, source: str) -> str:
    start, end = span(node, source)
    return source.encode()[start:end].decode()
