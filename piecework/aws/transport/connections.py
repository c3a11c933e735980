"""Send requests over kept connections, one request at a time on each.

Bytes that arrive without a request close the connection. So does a request whose caller
is cancelled or fails. Thus no caller receives the answer to another request.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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

from piecework.aws.transport.answer import Answer, MalformedError, parse_answer
from piecework.aws.transport.request import Route

#: Seconds of idleness after which a connection is closed; the SDK's value.
MAX_IDLE_S = 12.0
#: Longest time of one request, in read timeouts. The read timeout starts again with
#: each byte. Without this limit, a server that sends a byte now and then keeps a lease
#: renewal waiting for ever. A second read timeout is enough for the largest body.
TOTAL_READ_TIMEOUTS = 2.0
#: Host names that are resolved at once.
RESOLVER_THREADS = 4
#: Seconds before the next address of a host is tried beside a silent one; RFC 8305.
NEXT_ADDRESS_S = 0.25


class Connections:
    """The connections of one client.

    Each failure is raised as the SDK would raise it. The SDK's retry rules and our
    classification read those types.

    Args:
        limit: Most connections at once.
        connect_timeout: Seconds to resolve, connect and negotiate TLS.
        read_timeout: Seconds to wait for the next byte of an answer.
        tls: Returns the context that checks certificates.
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
        self._idle: defaultdict[tuple[str, int], list[Connection]] = defaultdict(list)
        self._all: set[Connection] = set()
        self._closed = False
        # The loop's own threads run plain stages. All of them may be busy for minutes,
        # and the renewal of their leases must not wait for that.
        self._resolver = ThreadPoolExecutor(RESOLVER_THREADS, "piecework-names")

    async def send(self, route: Route, request: bytes) -> Answer:
        """Send a request and return its answer.

        Raises:
            BotoCoreError: No acceptable answer arrived in time. The request may have
                been executed.
        """
        async with self._slots:
            if self._closed:
                raise HTTPClientError(error="the client is closed")
            idle = self._idle[route.host, route.port]
            with sdk_errors(route):
                connection = self._take_idle(idle) or await self._connect(route)
                answer = await connection.send(request)
            if connection.usable:
                idle.append(connection)
            return answer

    async def close(self) -> None:
        """Close all connections; later requests fail."""
        self._closed = True
        self._resolver.shutdown(wait=False, cancel_futures=True)
        for connection in self._all:
            connection.close()
        while self._all:
            await self._all.pop().closed

    def _take_idle(self, idle: list[Connection]) -> Connection | None:
        """Return the connection that was used last, and close those idle for long."""
        oldest = asyncio.get_running_loop().time() - MAX_IDLE_S
        while idle:
            connection = idle.pop()
            if connection.usable and connection.idle_since >= oldest:
                return connection
            connection.close()
        return None

    async def _connect(self, route: Route) -> Connection:
        """Return a new connection."""
        loop = asyncio.get_running_loop()
        make = partial(Connection, self._read_timeout)
        resolve = partial(
            socket.getaddrinfo, route.host, route.port, type=socket.SOCK_STREAM
        )
        tls = self._tls_context() if route.encrypted else None
        name = route.host if route.encrypted else None
        try:
            async with asyncio.timeout(self._connect_timeout):
                addresses = await loop.run_in_executor(self._resolver, resolve)
                # One silent address must not take all the time.
                connected = await start_connection(
                    addresses, happy_eyeballs_delay=NEXT_ADDRESS_S
                )
                _, connection = await loop.create_connection(
                    make, sock=connected, ssl=tls, server_hostname=name
                )
        except TimeoutError as error:
            raise ConnectTimeoutError(endpoint_url=route.url, error=error) from error
        except ssl.SSLError as error:
            raise SSLError(endpoint_url=route.url, error=error) from error
        except (OSError, RuntimeError) as error:  # no thread could be started
            raise EndpointConnectionError(
                endpoint_url=route.url, error=error
            ) from error
        if self._closed:
            connection.close()
        self._all.add(connection)
        connection.closed.add_done_callback(lambda _: self._all.discard(connection))
        return connection

    def _tls_context(self) -> ssl.SSLContext:
        self._tls = self._tls or self._make_tls()
        return self._tls


@contextmanager
def sdk_errors(route: Route) -> Iterator[None]:
    """Raise what the SDK would raise for the failure of a request."""
    try:
        yield
    except BotoCoreError:
        raise
    except TimeoutError as error:
        raise ReadTimeoutError(endpoint_url=route.url, error=error) from error
    except ConnectionAbortedError as error:
        raise ConnectionClosedError(endpoint_url=route.url, error=error) from error
    except OSError as error:
        raise EndpointConnectionError(endpoint_url=route.url, error=error) from error
    except Exception as error:  # the SDK leaves no other exception either
        raise HTTPClientError(error=error) from error


class Connection(asyncio.Protocol):
    """One connection.

    Attributes:
        idle_since: The loop's time of its last answer.
        closed: Done when the connection is closed.
    """

    def __init__(self, read_timeout: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._read_timeout = read_timeout
        self._answer: asyncio.Future[Answer] | None = None
        self._received = b""
        self._next_byte_due = self._last_byte_due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self.idle_since = 0.0
        self.closed: asyncio.Future[None] = self._loop.create_future()

    @property
    def usable(self) -> bool:
        """Whether another request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def send(self, request: bytes) -> Answer:
        """Send a request and wait for its answer.

        Raises:
            TimeoutError: No byte arrived for the read timeout, or the whole answer not
                within `TOTAL_READ_TIMEOUTS` of it.
            ConnectionError: The connection was closed before the answer was complete.
            MalformedError: The bytes are not one acceptable answer.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionAbortedError
        self._answer = self._loop.create_future()
        now = self._loop.time()
        self._next_byte_due = now + self._read_timeout
        self._last_byte_due = now + TOTAL_READ_TIMEOUTS * self._read_timeout
        if self._timer is None:
            self._timer = self._loop.call_at(self._next_byte_due, self._check_time)
        transport.write(request)
        try:
            answer = await self._answer
        except BaseException:
            self.close()
            raise
        finally:
            self._answer, self._received = None, b""
        if answer.closes:
            self.close()
        self.idle_since = self._loop.time()
        return answer

    def close(self) -> None:
        """Close the connection at once."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Complete the request when all of its answer has arrived."""
        if self._answer is None or self._answer.done():
            self.close()
            return
        self._next_byte_due = self._loop.time() + self._read_timeout
        self._received = self._received + data if self._received else data
        self._parse(self._answer, ended=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request in progress, unless its answer ends with the connection."""
        if self._answer is not None and not self._answer.done():
            if exc is None:
                self._parse(self._answer, ended=True)
            if not self._answer.done():
                self._answer.set_exception(exc or ConnectionAbortedError())
        self.close()
        self._transport = None
        if not self.closed.done():
            self.closed.set_result(None)

    def _parse(self, future: asyncio.Future[Answer], *, ended: bool) -> None:
        try:
            answer = parse_answer(self._received, ended=ended)
        except MalformedError as error:
            future.set_exception(error)
            return
        if answer is not None:
            future.set_result(answer)

    def _check_time(self) -> None:
        """Fail the request if its time is over, else check again when it would be.

        One timer serves many requests: to set and cancel one for each costs more.
        """
        self._timer = None
        if self._answer is None or self._answer.done():
            return
        due = min(self._next_byte_due, self._last_byte_due)
        if self._loop.time() >= due:
            self._answer.set_exception(TimeoutError())
        else:
            self._timer = self._loop.call_at(due, self._check_time)
