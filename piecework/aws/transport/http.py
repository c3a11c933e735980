"""One connection: a request, its answer, and only then the next.

Whatever comes that was not asked for, and every request that nobody waits for any
more, ends the connection: no answer can be taken for that of another request.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import cast

from aiohappyeyeballs import start_connection
from botocore.exceptions import (
    BotoCoreError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ReadTimeoutError,
    SSLError,
)

from piecework.aws.transport.request import Route


class Connection(asyncio.Protocol):
    """A connection.

    Attributes:
        free_since: When its last answer came, by the loop's clock.
        gone: Done once the connection is closed.
    """

    def __init__(self, read_timeout: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._read_timeout = read_timeout
        self._waiting: asyncio.Future[Answer] | None = None
        self._received = b""
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self.free_since = 0.0
        self.gone: asyncio.Future[None] = self._loop.create_future()

    @property
    def usable(self) -> bool:
        """Whether another request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes) -> Answer:
        """Send a request and wait for its answer.

        Raises:
            TimeoutError: Nothing came for too long.
            ConnectionError: It was closed before the answer was there.
            MalformedError: What came is no answer.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionAbortedError
        self._waiting = self._loop.create_future()
        self._due = self._loop.time() + self._read_timeout
        if self._timer is None:
            self._timer = self._loop.call_at(self._due, self._look_for_answer)
        transport.write(request)
        try:
            answer = await self._waiting
        except BaseException:
            self.close()
            raise
        finally:
            self._waiting, self._received = None, b""
        if answer.last:
            self.close()
        self.free_since = self._loop.time()
        return answer

    def close(self) -> None:
        """Close it at once."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()

    # ── told by the loop ────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what is written to."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand an answer over once all of it is there."""
        if self._waiting is None or self._waiting.done():
            self.close()
            return
        self._due = self._loop.time() + self._read_timeout
        self._received = self._received + data if self._received else data
        self._look(ended=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Whoever waits learns that nothing more will come."""
        if self._waiting is not None and not self._waiting.done():
            if exc is None:
                self._look(ended=True)
            if not self._waiting.done():
                self._waiting.set_exception(exc or ConnectionAbortedError())
        self.close()
        self._transport = None
        if not self.gone.done():
            self.gone.set_result(None)

    def _look(self, *, ended: bool) -> None:
        waiting = cast("asyncio.Future[Answer]", self._waiting)
        try:
            answer = read(self._received, ended=ended)
        except MalformedError as error:
            waiting.set_exception(error)
            return
        if answer is not None:
            waiting.set_result(answer)

    def _look_for_answer(self) -> None:
        """Give up when nothing has come for too long.

        One timer for many requests: to set one and cancel it for each costs more.
        """
        self._timer = None
        if self._waiting is None or self._waiting.done():
            return
        if self._loop.time() >= self._due:
            self._waiting.set_exception(TimeoutError())
        else:
            self._timer = self._loop.call_at(self._due, self._look_for_answer)


# An answer of HTTP/1.1, read from the bytes that have come so far.

#: Bytes of a head beyond which it is none.
HEAD_LIMIT = 64 * 1024
NO_BODY = frozenset({204, 304})
#: What a length may be; more digits are none that anybody means.
LENGTH = re.compile("[0-9]{1,15}", re.ASCII)
CHUNK = re.compile(rb"([0-9a-fA-F]{1,12})[ \t]*")


class MalformedError(ValueError):
    """What came is no answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back.

    Attributes:
        headers: By their names in small letters; of several the last, as in the SDK.
        last: The connection carries no further one.
    """

    status_code: int
    headers: dict[str, str]
    body: bytes
    last: bool

    async def read(self) -> bytes:
        """Return the body, to whoever expects it to be on its way."""
        return self.body


def read(received: bytes, *, ended: bool = False) -> Answer | None:
    """Return the answer; None while it is not complete.

    `ended`: no more will come, which is how some answers say that they are complete.

    Raises:
        MalformedError: It is no answer, or there is more than one.
    """
    end = received.find(b"\r\n\r\n")
    if end < 0:
        if len(received) > HEAD_LIMIT:
            message = "the head does not end"
            raise MalformedError(message)
        return None
    first, *lines = received[:end].decode("utf-8", "replace").split("\r\n")
    version, _, rest = first.partition(" ")
    code = rest[:3]
    if not version.startswith("HTTP/1.") or not code.isdigit() or code < "200":
        message = "it does not begin as an answer does"
        raise MalformedError(message)
    status = int(code)
    headers = headers_of(lines)
    body = body_of(status, headers, received[end + 4 :], ended=ended)
    if body is None:
        return None
    closing = version == "HTTP/1.0" or "close" in headers.get("connection", "").lower()
    return Answer(status, headers, body, last=closing or ended)


def headers_of(lines: list[str]) -> dict[str, str]:
    """Return the headers, by their names in small letters."""
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            message = "a header has no name"
            raise MalformedError(message)
        headers[name.lower()] = value.strip()
    return headers


def body_of(
    status: int, headers: dict[str, str], rest: bytes, *, ended: bool
) -> bytes | None:
    """Return the body, if all of it is there."""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return in_chunks(rest)
    length = headers.get("content-length", "0" if status in NO_BODY else None)
    if length is None:
        return rest if ended else None
    if LENGTH.fullmatch(length) is None:
        message = "its length is no number"
        raise MalformedError(message)
    if len(rest) > int(length):
        message = "there is more than was announced"
        raise MalformedError(message)
    return rest if len(rest) == int(length) else None


def in_chunks(rest: bytes) -> bytes | None:
    """Return a body that came in chunks, if all of it is there."""
    parts: list[bytes] = []
    at = 0
    while True:
        end = rest.find(b"\r\n", at)
        if end < 0:
            return None
        size = CHUNK.fullmatch(rest[at:end].partition(b";")[0])
        if size is None:
            message = "a chunk has no size"
            raise MalformedError(message)
        length = int(size[1], 16)
        if length == 0:
            return b"".join(parts) if ends(rest, end) else None
        at = end + 2 + length + 2
        if len(rest) < at:
            return None
        if rest[at - 2 : at] != b"\r\n":
            message = "a chunk is longer than it says"
            raise MalformedError(message)
        parts.append(rest[end + 2 : at - 2])


def ends(rest: bytes, last: int) -> bool:
    """Say whether a body in chunks is complete; `last`: where its last line ends.

    What may follow the last chunk, up to an empty line, says nothing of the body.
    """
    end = rest.find(b"\r\n\r\n", last)
    if 0 <= end < len(rest) - 4:
        message = "there is more than an answer"
        raise MalformedError(message)
    return end >= 0


# The connections of one client: kept open, so many at the most, checked as the SDK's.
#
# What goes wrong on the way is raised as what the SDK would have raised, for its rules
# of retrying and our own of classifying go by that.

#: Seconds without a request after which the SDK trusts a connection no longer.
KEPT_S = 12.0
#: Hosts that are looked up at once.
LOOKED_UP = 4


class Connections:
    """The connections of one client.

    Args:
        limit: How many there may be.
        tls: Makes what checks the other side's certificate.
    """

    def __init__(
        self,
        limit: int,
        connect_timeout: float,
        read_timeout: float,
        tls: Callable[[], ssl.SSLContext],
    ) -> None:
        self._connect_timeout = connect_timeout
        self._read_timeout = read_timeout
        self._make_tls = tls
        self._tls: ssl.SSLContext | None = None
        self._slots = asyncio.Semaphore(limit)
        self._free: defaultdict[tuple[str, int], list[Connection]] = defaultdict(list)
        self._all: set[Connection] = set()
        self._closed = False
        # The loop's own threads are those of plain stages: all of them may be busy for
        # minutes, and the renewal of their leases must not wait for that.
        self._names = ThreadPoolExecutor(LOOKED_UP, "piecework-names")

    async def send(self, route: Route, request: bytes) -> Answer:
        """Send a request and return its answer."""
        async with self._slots:
            if self._closed:
                raise HTTPClientError(error="the client is closed")
            free = self._free[route.host, route.port]
            try:
                connection = self._reused(free) or await self._connected(route)
                answer = await connection.ask(request)
            except BotoCoreError:
                raise
            except TimeoutError as error:
                raise ReadTimeoutError(endpoint_url=route.url, error=error) from error
            except ConnectionAbortedError as error:
                raise ConnectionClosedError(
                    endpoint_url=route.url, error=error
                ) from error
            except OSError as error:
                raise EndpointConnectionError(
                    endpoint_url=route.url, error=error
                ) from error
            except Exception as error:  # the SDK leaves nothing raw either
                raise HTTPClientError(error=error) from error
            if connection.usable:
                free.append(connection)
            return answer

    async def close(self) -> None:
        """Close them all, and open no more."""
        self._closed = True
        self._names.shutdown(wait=False, cancel_futures=True)
        for connection in self._all:
            connection.close()
        while self._all:
            await self._all.pop().gone

    def _reused(self, free: list[Connection]) -> Connection | None:
        """Return the connection that was used last."""
        oldest = asyncio.get_running_loop().time() - KEPT_S
        while free:
            connection = free.pop()
            if connection.usable and connection.free_since >= oldest:
                return connection
            connection.close()
        return None

    async def _connected(self, route: Route) -> Connection:
        """Return a new connection."""
        loop = asyncio.get_running_loop()
        make = partial(Connection, self._read_timeout)
        kind = socket.SOCK_STREAM
        look_up = partial(socket.getaddrinfo, route.host, route.port, type=kind)
        tls = self._trusted() if route.encrypted else None
        name = route.host if route.encrypted else None
        try:
            async with asyncio.timeout(self._connect_timeout):
                found = await loop.run_in_executor(self._names, look_up)
                # Of several addresses one that is silent must not take all the time.
                connected = await start_connection(found, happy_eyeballs_delay=0.25)
                _, connection = await loop.create_connection(
                    make, sock=connected, ssl=tls, server_hostname=name
                )
        except TimeoutError as error:
            raise ConnectTimeoutError(endpoint_url=route.url, error=error) from error
        except ssl.SSLError as error:
            raise SSLError(endpoint_url=route.url, error=error) from error
        except OSError as error:
            raise EndpointConnectionError(
                endpoint_url=route.url, error=error
            ) from error
        if self._closed:
            connection.close()
        self._all.add(connection)
        connection.gone.add_done_callback(lambda _: self._all.discard(connection))
        return connection

    def _trusted(self) -> ssl.SSLContext:
        self._tls = self._tls or self._make_tls()
        return self._tls
