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
SERVICES = {"cloudformation", "dynamodb", "s3", "sqs", "sts"}
#: Operations of one word, which our own verbs are called, too, are calls of these.
CLIENTS = {"client", "dynamodb", "cloudformation", "sqs", "s3"}
#: Where the embedded AWS is made ready, whom nobody has to be allowed anything.
EMBEDDED = "orchestrator/piecework_orchestrator/embedded/"
SUBMIT, WORK, REPAIR = "orchestrator", "worker", "reconciler"
READ, WRITE, DEPLOY = "operator-read", "operator-write", "deploy"
EVERYBODY = f"{SUBMIT} {WORK} {REPAIR} {READ} {WRITE}"
#: Who makes each call; what begins with `nobody` has a reason in the place of actors.
MAKERS = {
    "orchestrator/piecework_orchestrator/doctor.py:_check_resources "
    "dynamodb:DescribeTable": f"{SUBMIT} {READ}",
    "orchestrator/piecework_orchestrator/doctor.py:_check_resources "
    "s3:ListObjectsV2": f"{SUBMIT} {READ}",
    "orchestrator/piecework_orchestrator/doctor.py:_check_resources "
    "sqs:GetQueueUrl": f"{SUBMIT} {READ}",
    "orchestrator/piecework_orchestrator/doctor.py:_check_resources "
    "sts:GetCallerIdentity": f"{SUBMIT} {READ}",
    "orchestrator/piecework_orchestrator/infra/destroy.py:_delete_queue "
    "sqs:DeleteQueue": ("nobody: data is deleted by an administrator"),
    "orchestrator/piecework_orchestrator/infra/destroy.py:_delete_table "
    "dynamodb:DeleteTable": ("nobody: data is deleted by an administrator"),
    "orchestrator/piecework_orchestrator/infra/destroy.py:_delete_table "
    "dynamodb:UpdateTable": ("nobody: data is deleted by an administrator"),
    "orchestrator/piecework_orchestrator/infra/destroy.py:_wait_until_active "
    "dynamodb:DescribeTable": ("nobody: data is deleted by an administrator"),
    "orchestrator/piecework_orchestrator/infra/change_set.py:_describe "
    "cloudformation:DescribeChangeSet": (DEPLOY),
    "orchestrator/piecework_orchestrator/infra/change_set.py:delete_change_set "
    "cloudformation:DeleteChangeSet": DEPLOY,
    "orchestrator/piecework_orchestrator/infra/change_set.py:delete_change_set "
    "cloudformation:DeleteStack": DEPLOY,
    "orchestrator/piecework_orchestrator/infra/change_set.py:execute_change_set "
    "cloudformation:ExecuteChangeSet": DEPLOY,
    "orchestrator/piecework_orchestrator/infra/change_set.py:create_change_set "
    "cloudformation:CreateChangeSet": DEPLOY,
    "orchestrator/piecework_orchestrator/infra/destroy.py:_delete_stack "
    "cloudformation:DeleteStack": DEPLOY,
    "orchestrator/piecework_orchestrator/infra/destroy.py:_delete_stack "
    "cloudformation:UpdateTerminationProtection": DEPLOY,
    "orchestrator/piecework_orchestrator/infra/stack.py:_new_events "
    "cloudformation:DescribeStackEvents": DEPLOY,
    "orchestrator/piecework_orchestrator/infra/deploy.py:_set_policy "
    "cloudformation:SetStackPolicy": DEPLOY,
    "orchestrator/piecework_orchestrator/infra/deploy.py:protect_stack "
    "cloudformation:UpdateTerminationProtection": DEPLOY,
    "orchestrator/piecework_orchestrator/infra/destroy.py:_query_active_jobs "
    "dynamodb:Query": DEPLOY,
    "orchestrator/piecework_orchestrator/infra/session.py:open_session "
    "sts:GetCallerIdentity": DEPLOY,
    "orchestrator/piecework_orchestrator/infra/stack.py:Stack.find "
    "cloudformation:DescribeStacks": DEPLOY,
    "orchestrator/piecework_orchestrator/infra/stack.py:Stack.create_or_update "
    "cloudformation:CreateStack": (
        "nobody: the embedded AWS, where nobody looks at changes first"
    ),
    "orchestrator/piecework_orchestrator/infra/stack.py:Stack.create_or_update "
    "cloudformation:UpdateStack": (
        "nobody: the embedded AWS, where nobody looks at changes first"
    ),
    "orchestrator/piecework_orchestrator/infra/stack.py:Stack.resources "
    "cloudformation:ListStackResources": DEPLOY,
    "orchestrator/piecework_orchestrator/infra/stack.py:Stack.template "
    "cloudformation:GetTemplate": DEPLOY,
    "orchestrator/piecework_orchestrator/intake/manifest.py:object_blocks "
    "s3:GetObject": SUBMIT,
    "piecework/aws/objects.py:Objects._opened s3:GetObject": (
        f"{SUBMIT} {WORK} {READ} {REPAIR} {WRITE}"
    ),
    "piecework/aws/objects.py:Objects.names s3:ListObjectsV2": READ,
    "piecework/aws/objects.py:Objects.put s3:PutObject": (
        f"{SUBMIT} {WORK} {REPAIR} {WRITE}"
    ),
    "piecework/aws/queue.py:Queue.delete sqs:DeleteMessageBatch": f"{WORK} {REPAIR}",
    "piecework/aws/queue.py:Queue.depth "
    "sqs:GetQueueAttributes": "nobody: tests alone ask",
    "piecework/aws/queue.py:Queue.hide sqs:ChangeMessageVisibilityBatch": WORK,
    "piecework/aws/queue.py:Queue.receive sqs:ReceiveMessage": f"{WORK} {REPAIR}",
    "piecework/aws/queue.py:Queue.send sqs:SendMessageBatch": (
        f"{SUBMIT} {WORK} {REPAIR} {WRITE}"
    ),
    "piecework/aws/queue.py:Queue.send_back sqs:SendMessageBatch": REPAIR,
    "piecework/runtime.py:bucket_name sts:GetCallerIdentity": EVERYBODY,
    "piecework/runtime.py:queue_url sqs:GetQueueUrl": EVERYBODY,
    "piecework/store/table.py:Table.count dynamodb:Query": f"{SUBMIT} {REPAIR} {WRITE}",
    "piecework/store/table.py:Table.first dynamodb:Query": REPAIR,
    "piecework/store/table.py:Table.get dynamodb:GetItem": EVERYBODY,
    "piecework/store/table.py:Table.put dynamodb:PutItem": (
        f"{SUBMIT} {WORK} {REPAIR} {WRITE}"
    ),
    "piecework/store/table.py:Table.query dynamodb:Query": EVERYBODY,
    "piecework/store/table.py:Table.scan dynamodb:Scan": f"{READ} {WRITE}",
    "piecework/store/table.py:Table.transact dynamodb:TransactWriteItems": (
        f"{SUBMIT} {WORK} {REPAIR} {WRITE}"
    ),
    "piecework/store/table.py:Table.update dynamodb:UpdateItem": (
        f"{SUBMIT} {WORK} {REPAIR} {WRITE}"
    ),
}


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
    return sorted(f for f in files if EMBEDDED not in f.as_posix())


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


def made_by(actor: str) -> set[str]:
    """Return the operations that an actor calls."""
    return {
        call.partition(" ")[2] for call, who in MAKERS.items() if actor in who.split()
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
