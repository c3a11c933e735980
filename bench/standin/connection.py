"""One connection of HTTP/1.1: a request, its answer, and only then the next.

As much of the protocol as the SDKs of AWS speak to a server on this machine: bodies
have a length. A server of a library takes twice the CPU for a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, cast

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

    Attributes:
        on_lost: Told that nobody waits for the answer any more.
    """

    def __init__(self, serve: Serve) -> None:
        self.on_lost: Callable[[], None] | None = None
        self._serve = serve
        self._received = bytearray()
        self._needed = 0
        self._head: tuple[str, str, bytes, dict[bytes, bytes]] | None = None
        self._busy = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Collect received data, and serve each complete request."""
        self._received += data
        self._next()

    def connection_lost(self, _: Exception | None) -> None:
        """Cancel the pending answer."""
        self._transport = None
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
