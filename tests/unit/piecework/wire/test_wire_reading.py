"""Proofs of the second reading: connections, answers and routes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import HTTPClientError

from piecework.wire.answer import MalformedError, read
from piecework.wire.client import ThinClient
from piecework.wire.sdk import Sdk
from tests.unit.piecework.wire.both import Wire, answer, client
from tests.unit.piecework.wire.test_connections import Server, said, serving

OK = b"HTTP/1.1 200 OK\r\n"
UPDATE = {"TableName": "t", "Key": {}}


@contextmanager
def busy_threads() -> Iterator[None]:
    """Keep the one thread of the loop's own executor busy, as blocking stages do."""
    go_on = threading.Event()
    threads = ThreadPoolExecutor(1)
    loop = asyncio.get_running_loop()
    loop.set_default_executor(threads)
    blocked = threads.submit(go_on.wait, 20)
    try:
        yield
    finally:
        go_on.set()
        blocked.result()


async def test_a_connection_is_made_though_every_thread_of_the_stages_is_busy() -> None:
    server = Server(said(b"it"))
    async with serving(server, connect_timeout=1) as send:
        with busy_threads():
            assert b"it" == await send()


async def test_a_connection_is_made_though_the_stages_threads_are_gone() -> None:
    server = Server(said(b"it"))
    async with serving(server) as send:
        threads = ThreadPoolExecutor(1)
        asyncio.get_running_loop().set_default_executor(threads)
        threads.shutdown()
        assert b"it" == await send()


@pytest.mark.parametrize(
    "size", [b"-6", b"+3", b"0x3", b"1_0", b" 3", b"", b"f" * 5000]
)
def test_a_chunk_has_a_size_in_digits(size: bytes) -> None:
    head = OK + b"Transfer-Encoding: chunked\r\n\r\n"
    found: list[Any] = []

    def reading() -> None:
        try:
            found.append(read(head + size + b"\r\nbod\r\n0\r\n\r\n"))
        except Exception as error:  # noqa: BLE001
            found.append(error)

    thread = threading.Thread(target=reading, daemon=True)
    thread.start()
    thread.join(2)
    assert [MalformedError] == [type(each) for each in found]


def test_an_answer_behind_the_last_chunk_is_one_too_many() -> None:
    whole = OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nbod\r\n0\r\n\r\n"
    with pytest.raises(MalformedError):
        read(whole + OK + b"Content-Length: 0\r\n\r\n")
    with pytest.raises(MalformedError):
        read(whole + OK)


def test_a_chunk_ends_where_it_says() -> None:
    with pytest.raises(MalformedError):
        read(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nbodyy0\r\n\r\n")


def test_a_length_that_nobody_can_read_is_none() -> None:
    with pytest.raises(MalformedError):
        read(OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n")


async def test_whatever_goes_wrong_with_a_request_is_the_sdks_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def strange(*_: Any, **__: Any) -> Any:
        message = "label empty or too long"
        raise UnicodeError(message)

    async with serving(Server(said(b"it"))) as send:
        monkeypatch.setattr("piecework.wire.connections.start_connection", strange)
        with pytest.raises(HTTPClientError):
            await send()


class Changing:
    """Credentials that are refreshed while a route is worked out."""

    def __init__(self) -> None:
        self.now = ReadOnlyCredentials("AKIDONE", "s1", None)

    async def get_frozen_credentials(self) -> ReadOnlyCredentials:
        return self.now

    async def get_account_id(self) -> None:
        return None


async def test_a_route_is_kept_for_the_credentials_that_it_was_made_of() -> None:
    wire: Any = Wire([answer()])
    credentials = Changing()
    asked, go_on = asyncio.Event(), asyncio.Event()
    async with client("dynamodb", None) as sdk:
        inside = Sdk(sdk)
        inside.credentials = credentials
        found = ThinClient(inside, wire, clock=lambda: 0.0)
        known = inside.route

        async def slowly(operation: str, params: Any, signed_by: Any) -> Any:
            if signed_by.access_key == "AKIDONE":
                asked.set()
                await go_on.wait()
            return await known(operation, params, signed_by)

        inside.route = slowly  # type: ignore[assignment,method-assign]
        first = asyncio.create_task(found.update_item(**UPDATE))
        await asked.wait()
        credentials.now = ReadOnlyCredentials("AKIDTWO", "s2", "a token")
        await found.update_item(**UPDATE)
        go_on.set()
        await first
        await found.update_item(**UPDATE)

    signers = [sent.headers["authorization"].split("/")[0] for sent in wire.sent]
    assert ["AKIDTWO", "AKIDONE", "AKIDTWO"] == [s.split("=")[1] for s in signers]


async def test_another_try_is_signed_with_the_credentials_of_its_own_moment() -> None:
    wire: Any = Wire([answer(status=500), answer()])
    credentials = Changing()

    async def refreshed(_: float) -> None:
        credentials.now = ReadOnlyCredentials("AKIDTWO", "s2", "a token")

    async with client("dynamodb", None) as sdk:
        inside = Sdk(sdk)
        inside.credentials = credentials
        found = ThinClient(inside, wire, clock=lambda: 0.0, sleep=refreshed)
        await found.update_item(**UPDATE)

    signers = [sent.headers["authorization"].split("/")[0] for sent in wire.sent]
    assert ["AKIDONE", "AKIDTWO"] == [s.split("=")[1] for s in signers]
    assert [None, "a token"] == [
        sent.headers.get("x-amz-security-token") for sent in wire.sent
    ]
