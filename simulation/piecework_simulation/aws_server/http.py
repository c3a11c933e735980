"""One connection of HTTP/1.1: a request, its answer, and only then the next.

It has as much of the protocol as the SDKs of AWS use with a server on this machine. So
all bodies have a length. A server of a library takes twice the CPU for a request.
"""

from __future__ import annotations

import asyncio
import json
import sys
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, TypeAlias, cast

from botocore.exceptions import ClientError

END = b"\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Request:
    """A request, with lower-case header names."""

    method: str
    path: str
    query: bytes
    headers: dict[bytes, bytes]
    body: bytes


#: Answers a request with its connection's `answer`, at once or later.
Serve: TypeAlias = Callable[[Request, "Connection"], None]


class Connection(asyncio.Protocol):
    """A connection.

    Args:
        serve: Answers each request.
        opened: Contains the connection while it is open.

    Attributes:
        on_lost: Called when the connection was closed before its answer.
    """

    def __init__(self, serve: Serve, opened: set[Connection] | None = None) -> None:
        self.on_lost: Callable[[], None] | None = None
        self._serve = serve
        self._opened = set() if opened is None else opened
        self._received = bytearray()
        self._needed = 0
        self._head: tuple[str, str, bytes, dict[bytes, bytes]] | None = None
        self._busy = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)
        self._opened.add(self)

    def data_received(self, data: bytes) -> None:
        """Collect received data, and serve each complete request."""
        self._received += data
        self._next()

    def connection_lost(self, _: Exception | None) -> None:
        """Cancel the pending answer."""
        self._transport = None
        self._opened.discard(self)
        if self.on_lost is not None:
            self.on_lost()

    def answer(self, answer: bytes) -> None:
        """Send an answer."""
        self.on_lost = None
        if self._transport is not None:
            self._transport.write(answer)
        self._busy = False
        if self._received:
            self._next()

    def close(self) -> None:
        """Close the connection without the pending answer."""
        if self._transport is not None:
            self._transport.abort()

    def _next(self) -> None:
        """Serve the next request, if all of it is there."""
        if self._busy:
            return
        if self._head is None:
            end = self._received.find(END)
            if end < 0:
                return
            self._head = read_head(bytes(self._received[:end]))
            del self._received[: end + len(END)]
            headers = self._head[3]
            self._needed = int(headers.get(b"content-length", b"0"))
            if b"expect" in headers and self._transport is not None:
                self._transport.write(CONTINUE)
        if len(self._received) < self._needed:
            return
        body = bytes(self._received[: self._needed])
        del self._received[: self._needed]
        head, self._head, self._busy = self._head, None, True
        self._serve(Request(*head, body), self)


def read_head(head: bytes) -> tuple[str, str, bytes, dict[bytes, bytes]]:
    """Return a head's method, path, query and headers."""
    first, *lines = head.split(b"\r\n")
    method, target, _ = first.decode("latin-1").split(" ")
    path, _, query = target.partition("?")
    headers = {}
    for line in lines:
        name, _, value = line.partition(b":")
        headers[name.lower()] = value.strip()
    return method, path, query.encode(), headers


# ── answers on their way out ──────────────────────────────────────────────────

JSON = "application/x-amz-json-1.0"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request.

    Attributes:
        size: The length of the body in the headers; None: the true one.
        units: What DynamoDB bills for it.
    """

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": JSON})
    size: int | None = None
    units: float = 0

    def encode(self, now: float) -> bytes:
        """Return it, as it is sent."""
        size = len(self.body) if self.size is None else self.size
        lines = "".join(f"{name}: {text}\r\n" for name, text in self.headers.items())
        return (
            f"{first_lines(self.status, int(now))}{lines}Content-Length: {size}\r\n\r\n"
        ).encode() + self.body


Respond: TypeAlias = Callable[[Answer], None]


@lru_cache(maxsize=64)
def first_lines(status: int, second: int) -> str:
    """Return how an answer of this second begins."""
    date = formatdate(second, usegmt=True)
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nDate: {date}\r\n"


def encode_binary(content: bytes) -> str:
    """Return a binary value as JSON carries it."""
    return b64encode(content).decode()


#: No answer contains itself, so the encoder need not check that.
written = json.JSONEncoder(default=encode_binary, check_circular=False).encode


def ok_answer(document: Mapping[str, Any], units: float = 0) -> Answer:
    """Return the answer of a request that was done."""
    return Answer(HTTPStatus.OK, written(document).encode(), units=units)


def unknown_operation(why: object) -> Answer:
    """Return the error for an unmodelled operation; the log shows it."""
    sys.stderr.write(f"not modelled: {why}\n")
    said = {"__type": "NotImplemented", "message": f"not modelled: {why}"}
    return Answer(HTTPStatus.NOT_IMPLEMENTED, json.dumps(said).encode())


def error_document(error: ClientError) -> dict[str, Any]:
    """Return the body of an error."""
    said: Mapping[str, Any] = error.response
    parts = {k: v for k, v in said.items() if k not in {"Error", "ResponseMetadata"}}
    code = said["Error"]["Code"].rpartition(".")[2]
    return {"__type": code, **parts, "message": said["Error"]["Message"]}
