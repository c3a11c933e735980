from __future__ import annotations

import asyncio
from typing import Any

import pytest

from piecework_orchestrator.embedded.guard import Message, guarded

SIGNED = "AWS4-HMAC-SHA256 Credential=embedded17/20261123/us-east-1/sqs/aws4_request, x"
OWN = {"host": "127.0.0.1:4566", "authorization": SIGNED}


def status_of(
    headers: dict[str, str], *, key: str = "embedded17", **scope: Any
) -> tuple[int, set[bytes]]:
    """Return the status and the names of the headers that a client sees."""
    sent: list[Message] = []

    async def inner(_scope: Message, _receive: Any, send: Any) -> None:
        pairs = [(b"x-kept", b"1"), (b"Access-Control-Allow-Origin", b"*")]
        await send({"type": "http.response.start", "status": 200, "headers": pairs})
        await send({"type": "http.response.body", "body": b""})

    async def keep(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request"}

    http = {"type": "http", "method": "POST", "path": "/", "query_string": b""}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    asyncio.run(guarded(inner, key)(http | {"headers": pairs} | scope, receive, keep))
    return sent[0]["status"], {name for name, _ in sent[0]["headers"]}


def test_a_signed_request_passes_and_no_page_can_read_its_answer() -> None:
    assert status_of(OWN) == (200, {b"x-kept"})
    presigned = b"X-Amz-Credential=embedded17%2F20261123"
    status, _ = status_of({"host": "localhost"}, query_string=presigned)
    assert status == 200
    status, _ = status_of(
        {"host": "localhost"}, method="GET", path="/_ministack/health"
    )
    assert status == 200


@pytest.mark.attack("web pages")
@pytest.mark.parametrize(
    ("headers", "scope"),
    [
        ({"host": "attacker.example:4566"}, {}),  # rebound DNS name
        ({"host": "127.0.0.1.attacker.example"}, {}),
        ({"origin": "https://attacker.example"}, {}),
        ({"origin": "null"}, {}),
        ({"sec-fetch-site": "cross-site"}, {}),
        ({"authorization": SIGNED.replace("17/", "18/")}, {}),
        ({"authorization": ""}, {"path": "/_ministack/reset"}),
        ({"authorization": ""}, {"path": "/_ministack/health"}),
    ],
)
def test_a_foreign_request_is_refused(
    headers: dict[str, str], scope: dict[str, str]
) -> None:
    assert status_of(OWN | headers, **scope) == (403, {b"content-type"})
