"""A connection is made whatever threads do; what fails is the SDK's error."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.exceptions import HTTPClientError

from tests.unit.piecework.aws.transport.test_connections import Server, said, serving


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


async def test_whatever_goes_wrong_with_a_request_is_the_sdks_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def strange(*_: Any, **__: Any) -> Any:
        message = "label empty or too long"
        raise UnicodeError(message)

    async with serving(Server(said(b"it"))) as send:
        monkeypatch.setattr(
            "piecework.aws.transport.connections.start_connection", strange
        )
        with pytest.raises(HTTPClientError):
            await send()
