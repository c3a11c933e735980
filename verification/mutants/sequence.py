"""Leave out an await, or exchange it with its neighbour.

A protocol is an order of requests. A mutant leaves out a statement that waits, or
exchanges it with one that waits or reads a clock.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from verification.mutants.mutant import Mutant, scopes, span
from verification.mutants.paths import sources

#: Functions that read a clock.
CLOCKS = {"time", "monotonic", "clock", "now"}
#: Methods that wait and change nothing; a missing pause costs requests, not results.
PAUSES = {"acquire", "write_if_due", "emit", "gather", "sleep", "wait", "wait_turn"}
#: What the names of functions begin with that change nothing for others.
READINGS = ("read", "get", "newest", "write_if_due")
SIMPLE = ast.Expr | ast.Assign | ast.AnnAssign | ast.AugAssign


def sequence_mutants(root: Path) -> Iterator[Mutant]:
    """Yield every await that can be left out, and every pair that can be exchanged."""
    for path in sources(root):
        source = (root / path).read_text()
        tree = ast.parse(source)
        where = scopes(tree)
        for block in blocks(tree):
            timed = [at for at, one in enumerate(block) if is_timed(one)]
            for one in block:
                if is_act(one):
                    start, end = span(one, source)
                    what = f"without `{first_line(one)}`"
                    at = one.lineno, where[one]
                    yield Mutant("await", path, *at, what, start, end, "pass")
            for first, second in pairwise(timed):
                part = block[first : second + 1]
                if waits(part[0]) or waits(part[-1]):
                    yield from exchanged(path, source, where[part[0]], part)


def exchanged(
    path: str, source: str, scope: str, part: list[ast.stmt]
) -> Iterator[Mutant]:
    """Yield the statements with the first and the last exchanged, if names allow."""
    first, *between, last = part
    if independent(first, [*between, last]):
        order = [*between, last, first]
    elif independent(last, [first, *between]):
        order = [last, first, *between]
    else:
        return
    start, end = span(first, source)[0], span(last, source)[1]
    indent = "\n" + " " * first.col_offset
    text = indent.join(text_of(one, source) for one in order)
    what = f"`{first_line(last)}` before `{first_line(first)}`"
    yield Mutant("order", path, first.lineno, scope, what, start, end, text)


def blocks(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    """Yield every list of statements."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            found = getattr(node, name, None)
            if isinstance(found, list) and found:
                yield found


def is_timed(statement: ast.stmt) -> bool:
    """Return whether a simple statement acts or reads a clock; not if it only reads."""
    return isinstance(statement, SIMPLE) and (
        (waits(statement) and not only_reads(statement))
        or any(map(reads_clock, ast.walk(statement)))
    )


def only_reads(statement: ast.stmt) -> bool:
    """Return whether a statement waits only for a reading, or for a progress note."""
    called = [
        node.value.func
        for node in ast.walk(statement)
        if isinstance(node, ast.Await) and isinstance(node.value, ast.Call)
    ]
    names = [f.attr if isinstance(f, ast.Attribute) else ast.unparse(f) for f in called]
    return bool(names) and all(name.startswith(READINGS) for name in names)


def is_act(statement: ast.stmt) -> bool:
    """Return whether a statement waits for an act, not only for time to pass."""
    match statement:
        case ast.Expr(value=ast.Await(value=ast.Call(func=ast.Attribute(attr=name)))):
            return name not in PAUSES
        case ast.Expr():
            return waits(statement)
    return False


def waits(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Await) for node in ast.walk(statement))


def reads_clock(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in CLOCKS
    return False


def independent(one: ast.stmt, others: list[ast.stmt]) -> bool:
    """Return whether no statement reads or writes what another one writes."""
    mine, theirs = names(one), [names(other) for other in others]
    return not any(
        mine[1] & (read | written) or written & (mine[0] | mine[1])
        for read, written in theirs
    )


def names(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """Return the names that a statement reads, and those that it writes."""
    read, written = set(), set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            (written if isinstance(node.ctx, ast.Store) else read).add(node.id)
    if isinstance(statement, ast.AugAssign):
        read |= written
    return read, written


def text_of(statement: ast.stmt, source: str) -> str:
    start, end = span(statement, source)
    return source.encode()[start:end].decode()


def first_line(statement: ast.stmt) -> str:
    """Return a statement on one line, so that it names the mutant."""
    return ast.unparse(statement).partition("\n")[0]
