"""Every place in the code that calls an AWS operation, by its name in the SDK.

A new call fails the build until this table contains it. Its operation then needs its
actions (`operations.py`); its actors need a grant (`grants.py`, `infra/roles.yaml`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
from botocore import xform_name

ROOT = Path(__file__).parents[2]
PACKAGES = ("piecework", "workers", "orchestrator")
#: The services whose clients our code makes.
SERVICES = {
    *("cloudformation", "dynamodb", "ec2", "iam", "s3", "service-quotas"),
    *("sqs", "sts"),
}
#: Our own verbs have the names of operations of one word: they are calls of these only.
CLIENTS = {"client", "dynamodb", "cloudformation", "sqs", "s3"}
#: Only the embedded AWS is called here, and it needs no role.
EMBEDDED = "orchestrator/piecework_orchestrator/embedded/"
#: It carries what others call, and calls nothing itself.
TRANSPORT = "piecework/aws/transport/"
#: The roles that make each call, or `-` and a reason.
CALLERS = dict(
    line.split(" | ")
    for line in Path(__file__).with_name("calls.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
)


@cache
def operations() -> dict[str, str]:
    """Return the operations of the services: the SDK's name, and that of the API."""
    session = botocore.session.Session()
    return {
        xform_name(name): f"{service}:{name}"
        for service in sorted(SERVICES)
        for name in session.get_service_model(service).operation_names
    }


def found() -> set[str]:
    """Return every call in the code: `file:function service:Operation`."""
    return {
        f"{path.relative_to(ROOT).as_posix()}:{where} {operations()[name]}"
        for path in sources()
        for where, name in calls(ast.parse(path.read_text("utf-8")))
    }


def sources() -> list[Path]:
    """Return the files of the product, without those for the embedded AWS alone."""
    files = (path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
    return sorted(
        f
        for f in files
        if not any(part in f.as_posix() for part in (EMBEDDED, TRANSPORT))
    )


def calls(tree: ast.AST, where: str = "") -> Iterator[tuple[str, str]]:
    """Yield the operations that a tree names, each with the function around it."""
    for node in ast.iter_child_nodes(tree):
        inner = where
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{where}.{node.name}".lstrip(".")
        if (name := operation(node)) is not None:
            yield where, name
        yield from calls(node, inner)


def operation(node: ast.AST) -> str | None:
    """Return the operation that a node names, as a method or as a paginator's."""
    if isinstance(node, ast.Attribute) and node.attr in operations():
        words = "_" in node.attr
        return node.attr if words or last_name(node.value) in CLIENTS else None
    if isinstance(node, ast.Call) and last_name(node.func) in {
        "get_paginator",
        "get_waiter",
    }:
        given = node.args[0]
        return str(given.value) if isinstance(given, ast.Constant) else "?"
    return None


def operations_of(actor: str) -> set[str]:
    """Return the operations that an actor calls."""
    return {
        call.partition(" ")[2] for call, who in CALLERS.items() if actor in who.split()
    }


def last_name(node: Any) -> str:
    """Return the last name of `a.b.c`."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def services() -> set[str]:
    """Return the services whose clients the code makes, wherever it names one."""
    makers = {"client", "open", "make_client", "_client"}
    known = set(botocore.session.Session().get_available_services())
    return {
        str(given.value)
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and last_name(node.func) in makers
        for given in node.args[:1]
        if isinstance(given, ast.Constant) and given.value in known
    }
