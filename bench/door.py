"""The emulator's own door: counts each request, its bytes and what it is billed as.

It runs inside of the emulator's process and environment, in front of its application,
so that any client of any language is counted, and at the cost of some microseconds.
Write units are the emulator's, which are right once asked for; its read units are not,
and are computed here from what was read. Of a refused write the item that stood there
counts, if the answer shows it.

    GET /_bench   {"dynamodb.UpdateItem": [requests, billed, units, bytes in, out], ...}
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

# What the product itself computes sizes with; the file stands on nothing else.
_FILE = Path(__file__).parents[1] / "piecework" / "metering" / "units.py"
_SPEC: Any = importlib.util.spec_from_file_location("units", _FILE)
units: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(units)

WRITES = frozenset({"UpdateItem", "PutItem", "DeleteItem", "TransactWriteItems"})
WRITES |= {"BatchWriteItem"}
READS = frozenset({"GetItem", "Query", "Scan"})
CAPACITY = re.compile(rb'"CapacityUnits": ?([0-9.]+)')
#: Whoever calls itself so only looks on, and is not counted.
WATCHER = b"bench-watcher"

counts: dict[str, list[float]] = {}


def counted(inner: Any) -> Any:
    """Return an application that counts in front of another."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/_bench":
            await told(send)
        elif scope["type"] != "http" or watches(scope):
            await inner(scope, receive, send)
        else:
            await pass_on(inner, scope, receive, send)

    return app


def watches(scope: Any) -> bool:
    """Say whether somebody only looks on."""
    return any(
        name == b"user-agent" and value.startswith(WATCHER)
        for name, value in scope["headers"]
    )


async def pass_on(inner: Any, scope: Any, receive: Any, send: Any) -> None:
    """Let the application answer, and count what was asked and answered."""
    body = await whole(receive)
    name = operation(scope, dict(scope["headers"]), body)
    service, _, action = name.partition(".")
    inwards = len(body)
    if action in WRITES and b'"ReturnConsumedCapacity"' not in body:
        body = body.rstrip()[:-1] + b',"ReturnConsumedCapacity":"TOTAL"}'
        scope = {**scope, "headers": resized(scope["headers"], len(body))}
    answers: list[bytes] = []

    async def listening(message: Any) -> None:
        if message["type"] == "http.response.body":
            answers.append(message.get("body", b""))
        await send(message)

    await inner(scope, again(body, receive), listening)
    answer = b"".join(answers)
    row = counts.setdefault(name, [0, 0, 0, 0, 0])
    row[0] += 1
    row[1] += billed(service, inwards, len(answer))
    row[2] += consumed(action, body, answer) if service == "dynamodb" else 0
    row[3] += inwards
    row[4] += len(answer)


async def told(send: Any) -> None:
    """Answer with the counts."""
    start = {"type": "http.response.start", "status": 200, "headers": []}
    await send(start)
    body = json.dumps(counts).encode()
    await send({"type": "http.response.body", "body": body})


async def whole(receive: Any) -> bytes:
    """Return a request's body."""
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
    return body


def again(body: bytes, receive: Any) -> Any:
    """Return what hands out a body that was read; then it listens further."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Any:
        return waiting.pop() if waiting else await receive()

    return next_message


def resized(headers: Any, size: int) -> list[tuple[bytes, bytes]]:
    """Return the headers of a request whose body has got another size."""
    kept = [each for each in headers if each[0] != b"content-length"]
    return [*kept, (b"content-length", str(size).encode())]


def operation(scope: Any, headers: dict[bytes, bytes], body: bytes) -> str:
    """Return a request's service and operation."""
    target = headers.get(b"x-amz-target", b"").decode()
    if target:
        service, _, action = target.partition(".")
        return f"{'sqs' if service == 'AmazonSQS' else 'dynamodb'}.{action}"
    form = body if b"Action=" in body[:4096] else scope.get("query_string", b"")
    actions = parse_qs(form.decode("latin-1")).get("Action")
    if actions:
        return f"{'sqs' if b'/sqs/' in credential(headers) else 'other'}.{actions[0]}"
    if b"/s3/" not in credential(headers):
        return "other.unknown"
    if scope["method"] == "GET" and scope["path"].strip("/").count("/") == 0:
        return "s3.List"
    return f"s3.{scope['method'].title()}"


def credential(headers: dict[bytes, bytes]) -> bytes:
    """Return what a request was signed with, which names its service."""
    return headers.get(b"authorization", b"")


def billed(service: str, inwards: int, outwards: int) -> int:
    """Return the requests that a request is billed as: SQS counts its payload."""
    return int(units.sqs_requests(max(inwards, outwards))) if service == "sqs" else 1


def consumed(action: str, body: bytes, answer: bytes) -> float:
    """Return the write or read units of a request to DynamoDB."""
    told = CAPACITY.findall(answer)
    if action in WRITES and told:
        return sum(map(float, told))
    if action in WRITES:
        return refused(body, json.loads(answer))
    if action not in READS:
        return 0
    asked, found = json.loads(body), json.loads(answer)
    items = found.get("Items", [found["Item"]] if "Item" in found else [])
    whole_units: int = units.read_units(sum(map(units.item_size, items)))
    return whole_units if asked.get("ConsistentRead") else math.ceil(whole_units) / 2


def refused(body: bytes, answer: Any) -> float:
    """Return the units of a refused write; other errors cost nothing."""
    kind = answer.get("__type", "")
    if "ConditionalCheckFailed" in kind:
        return int(units.write_units(units.item_size(answer.get("Item", {}))))
    if "TransactionCanceled" not in kind and "TransactionConflict" not in kind:
        return 0
    return int(units.TRANSACTION) * len(json.loads(body)["TransactItems"])


if "MINISTACK_HOST" in os.environ:
    app = counted(importlib.import_module("ministack.app").app)
