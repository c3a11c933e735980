"""The tests of each row of the pages of conformance and hazards, for `make clause`."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from functools import cache

from tests.docs.pages import ROOT


def read_clauses() -> dict[str, list[str]]:
    """Return the tests of each row: `clauses.txt` has a row and a test in each line."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in (ROOT / "tests/docs/clauses.txt").read_text("utf-8").splitlines():
        row, test = line.split(" ")
        found[row].append(test)
    return found


CLAUSES = read_clauses()


def missing_tests(clauses: Mapping[str, list[str]]) -> list[str]:
    """Return each row with a test that is in no file."""
    return [
        f"{row}: {test}"
        for row, tests in clauses.items()
        for test in tests
        if test.partition("::")[2] not in functions_of(test.partition("::")[0])
    ]


@cache
def functions_of(file: str) -> frozenset[str]:
    """Return the functions of a file; none, if there is no such file."""
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text("utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
