"""The connections of one client: kept open, so many at the most, checked as the SDK's.

What goes wrong on the way is raised as what the SDK would have raised, for its rules
of retrying and our own of classifying go by that.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

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

from piecework.wire.answer import Answer
from piecework.wire.connection import Connection
from piecework.wire.route import Route

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
