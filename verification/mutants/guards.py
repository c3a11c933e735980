"""Replace each guard of claims, ends, reclaims and cancels by True and False."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from verification.mutants.mutant import Mutant, scopes, span

PATHS = [
    "piecework/domain/claim.py",
    "piecework/store/claims.py",
    "piecework/store/settlements.py",
    "piecework/store/takeovers.py",
    "piecework/store/cancellation.py",
    "piecework/calls/in_flight.py",
    "piecework/aws/queue.py",
    "piecework/jobs/cancellation.py",
    "piecework/jobs/fan_in.py",
    "piecework/saga/compensation.py",
    "piecework/reconciler/dead_letter_queue.py",
    "piecework/reconciler/chunks.py",
    "piecework/reconciler/jobs.py",
    "piecework/reconciler/loop.py",
    "piecework/reconciler/liveness.py",
    "workers/piecework_worker/executor.py",
    "workers/piecework_worker/refusals.py",
    "workers/piecework_worker/work_item.py",
    "workers/piecework_worker/lease.py",
    "workers/piecework_worker/settle.py",
    "workers/piecework_worker/notifier.py",
    "workers/piecework_worker/early_outcomes.py",
    "workers/piecework_worker/cancel_poller.py",
    "workers/piecework_worker/cancelled_jobs.py",
    "orchestrator/piecework_orchestrator/operate/cancel.py",
    "orchestrator/piecework_orchestrator/operate/retry.py",
]


def guard_mutants(root: Path) -> Iterator[Mutant]:
    """Yield every guard, and every operand of an `and`, as True and as False."""
    for path in PATHS:
        source = (root / path).read_text()
        tree = ast.parse(source)
        where = scopes(tree)
        for node in ast.walk(tree):
            for test, values in tests(node):
                start, end = span(test, source)
                said = ast.unparse(test)
                for value in values:
                    what = f"`{said}` as {value}"
                    scope = where[test]
                    line = test.lineno
                    yield Mutant("guard", path, line, scope, what, start, end, value)


def tests(node: ast.AST) -> Iterator[tuple[ast.expr, list[str]]]:
    """Yield the condition of a node, and its replacements."""
    both = ["True", "False"]
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            if not isinstance(test, ast.Constant):
                yield test, both
        case ast.match_case(guard=ast.expr() as guard):
            yield guard, both
        case ast.comprehension(ifs=ifs):
            yield from ((test, both) for test in ifs)
        case ast.keyword(value=ast.Compare() | ast.BoolOp(op=ast.And()) as told):
            yield told, both
        case ast.keyword(value=ast.UnaryOp(op=ast.Not()) as told):
            yield told, both
        case ast.BoolOp(op=ast.And(), values=values):
            yield from ((value, ["True"]) for value in values)
        case ast.BoolOp(op=ast.Or(), values=values) if is_boolean_choice(values):
            yield from ((value, ["False"]) for value in values)


def is_boolean_choice(operands: list[ast.expr]) -> bool:
    """Distinguish `a or b` of two conditions from `given or default`."""
    plain = ast.Compare | ast.BoolOp | ast.UnaryOp
    either = plain | ast.Attribute
    return all(isinstance(x, either) for x in operands) and any(
        isinstance(x, plain) for x in operands
    )
