from __future__ import annotations

import asyncio
import errno
import http.client
import socket
import ssl
import urllib.error
from unittest.mock import Mock

import aiohttp
import pytest
import urllib3

from piecework.errors.classify import classify


class TransportError(Exception):
    """As httpx has it."""


class TimeoutException(TransportError):  # noqa: N818  httpx's own name
    """As httpx has it."""


@pytest.mark.parametrize("layer", ["llm", "tool"])
@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (TimeoutError(), "connection.timeout"),
        (aiohttp.ServerTimeoutError(), "connection.timeout"),
        (aiohttp.ConnectionTimeoutError(), "connection.timeout"),
        (TimeoutException(), "connection.timeout"),
        (TransportError(), "connection.failed"),
        (aiohttp.ClientConnectionError(), "connection.failed"),
        (aiohttp.ServerDisconnectedError(), "connection.failed"),
        (aiohttp.ClientOSError(errno.ECONNRESET, "reset"), "connection.failed"),
        (aiohttp.ClientPayloadError(), "http.malformed_body"),
        (ConnectionRefusedError(), "connection.failed"),
        (InterruptedError(), "connection.failed"),
        (EOFError(), "connection.failed"),
        (http.client.BadStatusLine("x"), "http.malformed_body"),
        (urllib.error.URLError(ConnectionRefusedError()), "connection.failed"),
        (urllib3.exceptions.ProtocolError("broken"), "connection.failed"),
        (
            urllib3.exceptions.MaxRetryError(Mock(), "/", TimeoutError()),
            "connection.timeout",
        ),
        (ConnectionResetError(), "connection.failed"),
        (BrokenPipeError(), "connection.failed"),
        (asyncio.IncompleteReadError(b"", 4), "connection.failed"),
        (socket.gaierror(socket.EAI_NONAME, "no name"), "connection.failed"),
        (ssl.SSLError(), "connection.failed"),
        (OSError(errno.EHOSTUNREACH, "no route"), "connection.failed"),
        (OSError("Multiple exceptions: ..."), "connection.failed"),
    ],
)
def test_a_call_without_an_answer_is_transient(
    error: BaseException, detail: str, layer: str
) -> None:
    envelope = classify(error, layer=layer)

    assert (f"{layer}.{detail}", True) == (envelope.code, envelope.retryable)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), OSError(errno.ENOSPC, "full"), OSError(errno.EMFILE, "files")],
)
def test_a_worker_that_is_full_is_no_fault_of_the_chunk(error: BaseException) -> None:
    envelope = classify(error)

    assert ("runtime.worker.exhausted", True) == (envelope.code, envelope.retryable)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("503 throttled, retry later"),
        KeyError("TransientError"),
        FileNotFoundError(errno.ENOENT, "gone"),
        PermissionError(errno.EACCES, "no"),
        AssertionError(),
    ],
)
def test_an_exception_without_a_class_is_permanent_whatever_it_says(
    error: BaseException,
) -> None:
    envelope = classify(error)

    assert envelope.code == "runtime.stage.unhandled"
    assert envelope.error_class == "permanent"


@pytest.mark.parametrize("layer", ["llm", "tool"])
def test_what_a_client_refuses_to_send_is_refused_again(layer: str) -> None:
    found = classify(aiohttp.InvalidURL("nowhere"), layer=layer)
    assert (f"{layer}.request.invalid", False) == (found.code, found.retryable)
