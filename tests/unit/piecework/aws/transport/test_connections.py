"""Connections to a server on this machine: kept, dropped and given up in time."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ReadTimeoutError,
    SSLError,
)

from piecework.aws.transport.connections import MAX_IDLE_S, Connection, Connections
from tests.unit.piecework.aws.transport.certificate import certified

REQUEST = b"POST / HTTP/1.1\r\n\r\n"


def said(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


class To:
    """Where a request goes, without a signature."""

    def __init__(self, port: int, *, encrypted: bool = False) -> None:
        self.host, self.port, self.encrypted = "localhost", port, encrypted
        self.url = f"http://localhost:{port}/"


class Server:
    """Answers the requests that come one after the other, as it is told."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.opened = 0
        self.asked = asyncio.Event()
        self.lost = asyncio.Event()
        self.go_on = asyncio.Event()

    async def serve(self, came: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        self.opened += 1
        try:
            while await came.readuntil(b"\r\n\r\n"):
                self.asked.set()
                if not self.answers:
                    await came.read()
                    break
                to.write(self.answers.pop(0))
                if self.answers and self.answers[0] == b"close":
                    self.answers.pop(0)
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.lost.set()
            to.close()


@dataclass
class Caller:
    """Sends a request and returns the answer's body."""

    connections: Connections
    route: Any

    async def __call__(self) -> bytes:
        return (await self.connections.send(self.route, REQUEST)).body

    async def all_gone(self) -> None:
        """Wait until what the server closed is known to be."""
        await asyncio.gather(*(each.closed for each in [*self.connections._all]))


@asynccontextmanager
async def serving(
    server: Server, tls: ssl.SSLContext | None = None, **more: Any
) -> AsyncIterator[Caller]:
    """Yield what calls the server."""
    listening = await asyncio.start_server(server.serve, "localhost", 0, ssl=tls)
    port = listening.sockets[0].getsockname()[1]
    trusted = more.pop("trusted", None) or ssl.create_default_context
    options = {"limit": 4, "connect_timeout": 5, "read_timeout": 5, **more}
    connections = Connections(tls=trusted, **options)
    route: Any = To(port, encrypted=tls is not None)

    async with listening:
        yield Caller(connections, route)
        await connections.close()


async def test_a_connection_is_used_again() -> None:
    server = Server(said(b"one"), said(b"two"))
    async with serving(server) as send:
        assert (b"one", b"two") == (await send(), await send())
        assert 1 == server.opened


async def test_there_are_no_more_connections_than_the_limit() -> None:
    server = Server(*[said(b"it")] * 30)
    async with serving(server, limit=3) as send:
        assert [b"it"] * 30 == await asyncio.gather(*(send() for _ in range(30)))
        assert 3 >= server.opened


async def test_a_connection_that_was_idle_for_long_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(said(b"one"), said(b"two"))
    async with serving(server) as send:
        await send()
        loop = asyncio.get_running_loop()
        later = loop.time() + MAX_IDLE_S + 1
        monkeypatch.setattr(loop, "time", lambda: later)

        assert b"two" == await send()
        assert 2 == server.opened


@pytest.mark.parametrize(
    ("answers", "opened"),
    [
        ([said(b"one"), b"close", said(b"two")], 2),
        ([said(b"one").replace(b"OK", b"OK\r\nConnection: close"), said(b"two")], 2),
        ([b"HTTP/1.1 200 OK\r\n\r\none", b"close", said(b"two")], 2),
    ],
)
async def test_a_connection_that_was_closed_is_not_used_again(
    answers: list[bytes], opened: int
) -> None:
    server = Server(*answers)
    async with serving(server) as send:
        assert b"one" == await send()
        await send.all_gone()
        assert b"two" == await send()
        assert opened == server.opened


async def test_an_answer_of_a_request_that_gave_up_reaches_no_other_request() -> None:
    server = Server()
    async with serving(server) as send:
        asking = asyncio.create_task(send())
        await server.asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await server.lost.wait()
        server.answers.append(said(b"mine"))

        assert b"mine" == await send()
        assert 2 == server.opened


async def test_a_request_that_is_cancelled_at_any_step_leaves_nothing_open() -> None:
    for steps in range(24):
        async with serving(Server(said(b"it"))) as send:
            asking = asyncio.create_task(send())
            for _ in range(steps):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            left = [each for each in send.connections._all if each.usable]

            assert left == send.connections._idle[send.route.host, send.route.port]
    gc.collect()  # an open socket fails the test here


async def test_a_client_that_was_closed_opens_no_connection() -> None:
    server = Server(said(b"it"))
    async with serving(server) as send:
        await send.connections.close()
        with pytest.raises(HTTPClientError, match="closed"):
            await send()

        assert 0 == server.opened


@pytest.mark.attack("answers")
@pytest.mark.parametrize("ahead", [said(b"one") + said(b"of another"), b"junk\r\n\r\n"])
async def test_what_is_more_than_an_answer_fails_the_request(ahead: bytes) -> None:
    server = Server(ahead, said(b"mine"))
    async with serving(server) as send:
        with pytest.raises(HTTPClientError):
            await send()

        assert b"mine" == await send()
        assert 2 == server.opened


@pytest.mark.attack("answers")
async def test_what_was_not_asked_for_ends_the_connection() -> None:
    made, transport = Connection(5), Transport()
    made.connection_made(transport)
    made.data_received(said(b"of nobody"))

    assert transport.aborted
    assert not made.usable


class Transport(asyncio.Transport):
    aborted = False

    def write(self, data: Any) -> None:
        """Send nothing."""

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted


async def test_a_lost_answer_differs_from_a_late_one() -> None:
    async with serving(Server(b"HTTP/1.1 200 OK\r\n", b"close")) as send:
        with pytest.raises(ConnectionClosedError):
            await send()
    async with serving(Server(), read_timeout=0.02) as send:
        with pytest.raises(ReadTimeoutError):
            await send()


@pytest.mark.attack("answers")
async def test_an_answer_that_trickles_is_given_up_in_time() -> None:
    async def trickle(_: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        to.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n")
        try:
            while not to.is_closing():
                to.write(b"x")
                await to.drain()
                await asyncio.sleep(0.01)
        except ConnectionError:
            pass
        finally:
            to.close()

    server = Server()
    server.serve = trickle  # type: ignore[method-assign]
    async with serving(server, read_timeout=0.5) as send, asyncio.timeout(20):
        with pytest.raises(ReadTimeoutError):
            await send()


async def test_an_answer_may_take_longer_than_one_read_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, transport = Connection(10), Transport()
    made.connection_made(transport)
    loop = asyncio.get_running_loop()
    start = loop.time()
    monkeypatch.setattr(loop, "time", lambda: start)
    sending = asyncio.create_task(made.send(REQUEST))
    await asyncio.sleep(0)
    first, rest = said(b"it")[:-1], said(b"it")[-1:]

    monkeypatch.setattr(loop, "time", lambda: start + 9)
    made.data_received(first)
    made._check_time()
    monkeypatch.setattr(loop, "time", lambda: start + 18)
    made._check_time()
    made.data_received(rest)

    assert b"it" == (await sending).body


@pytest.mark.parametrize("arrival", [[9, 18], [9, 18, 19.5]])
async def test_the_time_of_a_request_ends_after_two_read_timeouts(
    arrival: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Connection(10)
    made.connection_made(Transport())
    loop = asyncio.get_running_loop()
    start = loop.time()
    monkeypatch.setattr(loop, "time", lambda: start)
    sending = asyncio.create_task(made.send(REQUEST))
    await asyncio.sleep(0)
    for seconds in arrival:
        monkeypatch.setattr(loop, "time", lambda s=seconds: start + s)
        made.data_received(b"H")
        made._check_time()
    monkeypatch.setattr(loop, "time", lambda: start + 20)
    made._check_time()

    with pytest.raises(TimeoutError):
        await sending


@pytest.mark.attack("answers")
async def test_an_answer_that_is_too_large_fails_the_request_and_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("piecework.aws.transport.answer.BODY_LIMIT", 100)
    server = Server(said(b"x" * 101), said(b"x" * 100))
    async with serving(server) as send:
        with pytest.raises(HTTPClientError, match="more than 100 bytes"):
            await send()

        assert b"x" * 100 == await send()
        assert 2 == server.opened


async def test_a_refused_connection_is_an_endpoint_that_cannot_be_reached() -> None:
    listening = await asyncio.start_server(lambda *_: None, "localhost", 0)
    port = listening.sockets[0].getsockname()[1]
    listening.close()
    await listening.wait_closed()
    connections = Connections(4, 5, 5, ssl.create_default_context)
    route: Any = To(port)

    with pytest.raises(EndpointConnectionError):
        await connections.send(route, REQUEST)


async def test_a_connection_that_is_never_made_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(*_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()

    connections = Connections(4, 0.01, 5, ssl.create_default_context)
    route: Any = To(1)
    start = "piecework.aws.transport.connections.start_connection"
    monkeypatch.setattr(start, never)

    with pytest.raises(ConnectTimeoutError):
        await connections.send(route, REQUEST)


@pytest.mark.attack("answers")
async def test_only_a_server_with_a_trusted_certificate_is_spoken_to() -> None:
    shown, trusted = certified("localhost")
    async with serving(Server(said(b"it")), shown, trusted=lambda: trusted) as send:
        assert b"it" == await send()
    async with serving(Server(said(b"it")), shown) as send:
        with pytest.raises(SSLError):
            await send()
    other, trusted = certified("another.example")
    async with serving(Server(said(b"it")), other, trusted=lambda: trusted) as send:
        with pytest.raises(SSLError):
            await send()
