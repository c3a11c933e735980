"""Define a change of one source file that some test must detect."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Mutant:
    """A piece of a file, and what stands there instead.

    Attributes:
        kind: What is changed: a clause, a guard, an order, an await or a last item.
        scope: The function or constant that it is in: stays when lines move.
        what: The change in words; with path and scope it names the mutant.
    """

    kind: str
    path: str
    line: int
    scope: str
    what: str
    start: int
    end: int
    text: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.path, self.scope, self.what

    def __str__(self) -> str:
        return f"{self.kind} {self.path}:{self.line} {self.scope}: {self.what}"

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]


def span(node: ast.expr | ast.stmt, source: str) -> tuple[int, int]:
    """Return where an expression or a statement begins and ends, in bytes."""
    lines = accumulate(
        (len(x.encode()) for x in source.splitlines(keepends=True)), initial=0
    )
    starts = list(lines)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    begin = starts[node.lineno - 1] + node.col_offset
    return begin, starts[node.end_lineno - 1] + node.end_col_offset


def scopes(tree: ast.Module) -> dict[ast.AST, str]:
    """Return the name of the function around each node; "" outside of functions."""
    found: dict[ast.AST, str] = {}

    def walk(node: ast.AST, scope: str) -> None:
        found[node] = scope
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            scope = node.name
        for child in ast.iter_child_nodes(node):
            walk(child, scope)

    walk(tree, "")
    return found
