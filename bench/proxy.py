"""Count requests, bytes and billed units in front of the emulator's application.

It runs inside the emulator's process and environment. So it counts clients in any
language, at a cost of microseconds. The emulator's write units are correct if the
request asks for them. Its read units are wrong, so this module computes them from the
items read.

GET /_bench returns {"dynamodb.UpdateItem": [requests, billed, units, bytes in, bytes
out], ...}
"""

from __future__ import annotations

import importlib
import json
import os
import re
from typing import Any

from bench import meter

CAPACITY = re.compile(rb'"CapacityUnits": ?([0-9.]+)')

counts: dict[str, list[float]] = {}


def count_requests(inner: Any) -> Any:
    """Return an application that counts the requests to another one."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/_bench":
            await send_counts(send)
        elif scope["type"] != "http" or meter.is_observer(dict(scope["headers"])):
            await inner(scope, receive, send)
        else:
            await forward_request(inner, scope, receive, send)

    return app


async def forward_request(inner: Any, scope: Any, receive: Any, send: Any) -> None:
    """Forward a request to the application, and count it with its reply."""
    body = await read_body(receive)
    query = scope.get("query_string", b"")
    place = (scope["method"], scope["path"], query, dict(scope["headers"]))
    name = meter.operation(*place, body)
    service, _, action = name.partition(".")
    inwards = len(body)
    if action in meter.WRITES and b'"ReturnConsumedCapacity"' not in body:
        body = body.rstrip()[:-1] + b',"ReturnConsumedCapacity":"TOTAL"}'
        scope = {
            **scope,
            "headers": replace_content_length(scope["headers"], len(body)),
        }
    answers: list[bytes] = []

    async def listening(message: Any) -> None:
        if message["type"] == "http.response.body":
            answers.append(message.get("body", b""))
        await send(message)

    await inner(scope, replay_body(body, receive), listening)
    answer = b"".join(answers)
    used = consumed_units(action, body, answer) if service == "dynamodb" else 0
    meter.count_request(counts, name, inwards, len(answer), used)


async def send_counts(send: Any) -> None:
    """Answer with the counts."""
    start = {"type": "http.response.start", "status": 200, "headers": []}
    await send(start)
    body = json.dumps(counts).encode()
    await send({"type": "http.response.body", "body": body})


async def read_body(receive: Any) -> bytes:
    """Return a request's body."""
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
    return body


def replay_body(body: bytes, receive: Any) -> Any:
    """Return a receive function that replays a body before further messages."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Any:
        return waiting.pop() if waiting else await receive()

    return next_message


def replace_content_length(headers: Any, size: int) -> list[tuple[bytes, bytes]]:
    """Return the headers with a new content length."""
    kept = [each for each in headers if each[0] != b"content-length"]
    return [*kept, (b"content-length", str(size).encode())]


def consumed_units(action: str, body: bytes, answer: bytes) -> float:
    """Return the write or read units of a request to DynamoDB."""
    send_counts = CAPACITY.findall(answer)
    if action in meter.WRITES and send_counts:
        return sum(map(float, send_counts))
    if action in meter.WRITES:
        return meter.refused_write_units(body, json.loads(answer))
    if action in meter.READS:
        return meter.read_units(json.loads(body), json.loads(answer))
    return 0


if "MINISTACK_HOST" in os.environ:
    app = count_requests(importlib.import_module("ministack.app").app)
