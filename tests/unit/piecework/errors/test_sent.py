"""The table of "sent, not sent, unknown": by type, by what wraps it, by its place."""

from __future__ import annotations

import asyncio
import errno
import http.client
import socket
import ssl
import urllib.error
from types import SimpleNamespace as Some
from typing import Any

import aiohttp
import botocore.exceptions as boto
import pytest
import urllib3.exceptions as u3

from piecework.errors import PermanentError, TransientError
from piecework.errors.classify import classify
from piecework.errors.sent import Sent, sent_of
from piecework.resilience.retry import not_executed

NO, YES, UNKNOWN = Sent.NO, Sent.YES, Sent.UNKNOWN


def of(module: str, name: str, *bases: str, cause: Any = None, held: Any = None) -> Any:
    """Return an error of a library that is not installed here."""
    base: type = Exception
    for each in reversed(bases):
        base = type(each, (base,), {"__module__": module})
    kind = type(name, (base,), {"__module__": module})
    error = kind(*([] if held is None else [held]))
    error.__cause__ = cause
    return error


REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
RESET = ConnectionResetError(errno.ECONNRESET, "reset")
HOST: Any = Some(host="h", port=80, ssl=True, is_ssl=True)
UNTRUSTED = ssl.SSLCertVerificationError(1, "expired")
NO_HANDLE = OSError(errno.EMFILE, "Too many open files")


def requests(name: str, held: BaseException | None = None) -> Any:
    return of("requests.exceptions", name, "RequestException", held=held)


def max_retries(reason: Exception) -> u3.MaxRetryError:
    return u3.MaxRetryError(Some(), "/", reason)  # type: ignore[arg-type]


def httpx(name: str, cause: BaseException | None = None) -> Any:
    return of("httpx", name, "TransportError", cause=cause)


TABLE: list[tuple[Sent, BaseException]] = [
    (NO, REFUSED),
    (NO, socket.gaierror(socket.EAI_NONAME, "no name")),
    (NO, UNTRUSTED),
    *((NO, OSError(n, "x")) for n in (errno.EMFILE, errno.ENFILE, errno.EHOSTUNREACH)),
    *((NO, OSError(n, "x")) for n in (errno.ENETUNREACH, errno.EADDRNOTAVAIL)),
    (UNKNOWN, OSError(errno.EMFILE, "Too many open files", "receipt.pdf")),
    *((UNKNOWN, OSError(n, "x")) for n in (errno.ETIMEDOUT, errno.ENOSPC, None)),
    *((UNKNOWN, each) for each in (RESET, BrokenPipeError(), TimeoutError())),
    *((UNKNOWN, each) for each in (ssl.SSLError(1, "?"), EOFError(), ValueError())),
    (UNKNOWN, asyncio.IncompleteReadError(b"", 3)),
    # aiohttp
    (NO, aiohttp.ClientConnectorError(HOST, REFUSED)),
    (NO, aiohttp.ClientConnectorDNSError(HOST, OSError(errno.EAGAIN, "dns"))),
    (NO, aiohttp.ClientConnectorCertificateError(HOST, UNTRUSTED)),
    (NO, aiohttp.ConnectionTimeoutError()),
    (NO, aiohttp.InvalidURL("x")),
    (UNKNOWN, aiohttp.ServerTimeoutError()),
    (UNKNOWN, aiohttp.SocketTimeoutError()),
    (UNKNOWN, aiohttp.ServerDisconnectedError()),
    (UNKNOWN, aiohttp.ClientOSError(errno.EHOSTUNREACH, "lost while reading")),
    (YES, aiohttp.ClientPayloadError()),
    (YES, aiohttp.ClientResponseError(HOST, (), status=503)),
    # httpx, and those who use it
    *((NO, httpx(name)) for name in ("ConnectError", "ConnectTimeout", "PoolTimeout")),
    *((NO, httpx(name)) for name in ("UnsupportedProtocol", "ProxyError")),
    (NO, httpx("LocalProtocolError", of("h11", "LocalProtocolError"))),
    (UNKNOWN, httpx("LocalProtocolError", of("h2.exceptions", "ProtocolError"))),
    (UNKNOWN, httpx("ReadTimeout", cause=httpx("ConnectError"))),
    *((UNKNOWN, httpx(name)) for name in ("ReadError", "RemoteProtocolError")),
    (NO, of("openai", "APIConnectionError", cause=httpx("ConnectError"))),
    (NO, of("openai", "APITimeoutError", cause=of("httpx2", "ConnectTimeout"))),
    (UNKNOWN, of("openai", "APITimeoutError", cause=httpx("ReadTimeout"))),
    # requests and urllib3
    (NO, requests("ConnectTimeout")),
    (NO, requests("MissingSchema")),
    (NO, u3.NewConnectionError(HOST, "refused")),
    (NO, u3.NameResolutionError("h", HOST, socket.gaierror())),
    (NO, u3.ConnectTimeoutError()),
    (NO, requests("ConnectionError", max_retries(u3.NewConnectionError(HOST, "?")))),
    (NO, requests("SSLError", max_retries(u3.SSLError(UNTRUSTED)))),
    (UNKNOWN, requests("ConnectionError", u3.ProtocolError("aborted", RESET))),
    (UNKNOWN, requests("ConnectionError", u3.ProtocolError("aborted", NO_HANDLE))),
    (UNKNOWN, requests("ReadTimeout")),
    (UNKNOWN, max_retries(u3.ReadTimeoutError(Some(), "/", "t"))),  # type: ignore[arg-type]
    (YES, max_retries(u3.ResponseError("too many 503"))),
    (YES, requests("ChunkedEncodingError")),
    # the standard library
    (NO, urllib.error.URLError(REFUSED)),
    (UNKNOWN, urllib.error.URLError(RESET)),
    (UNKNOWN, http.client.RemoteDisconnected()),
    (YES, http.client.IncompleteRead(b"x")),
    # AWS
    (NO, boto.EndpointConnectionError(endpoint_url="u")),
    (NO, boto.ConnectTimeoutError(endpoint_url="u")),
    (NO, boto.NoCredentialsError()),
    (UNKNOWN, boto.ReadTimeoutError(endpoint_url="u")),
    (UNKNOWN, boto.ConnectionClosedError(endpoint_url="u")),
    (YES, boto.ClientError({}, "o")),
    # gRPC: unavailable may mean that the connection broke after the request
    (UNKNOWN, of("grpc", "AioRpcError")),
    # groups, and what the function says itself
    (NO, ExceptionGroup("both", [REFUSED, NO_HANDLE])),
    (UNKNOWN, ExceptionGroup("both", [REFUSED, RESET])),
    (NO, PermanentError("closed today", sent=False)),
    (YES, TransientError("the second of two requests", sent=True)),
    (UNKNOWN, TransientError("down")),
]


@pytest.mark.parametrize(("sent", "error"), TABLE, ids=lambda each: repr(each)[:60])
def test_the_type_of_an_error_says_whether_it_was_sent(
    sent: Sent, error: BaseException
) -> None:
    failure = classify(error, in_call=True)
    assert sent is failure.sent
    if sent is NO:
        assert not_executed(failure)


def raised(work: Any) -> BaseException:
    try:
        work()
    except Exception as error:  # noqa: BLE001
        return error
    raise AssertionError


def test_a_cause_counts_and_what_was_handled_before_does_not() -> None:
    def wrapping() -> None:
        try:
            raise REFUSED
        except OSError as error:
            message = "the SDK of our own"
            raise ValueError(message) from error

    def charging_elsewhere() -> None:
        try:
            raise REFUSED
        except OSError:
            charged: dict[str, str] = {}
            charged["receipt"]

    def charging_before() -> None:
        try:
            raise REFUSED
        except OSError as error:
            message = "no receipt"
            raise TransientError(message, sent=True) from error

    assert NO is sent_of(raised(wrapping))
    assert UNKNOWN is sent_of(raised(charging_elsewhere))
    assert YES is sent_of(raised(charging_before))


async def test_what_is_cut_off_while_it_connects_was_not_sent() -> None:
    class Loop(asyncio.SelectorEventLoop):
        async def _ensure_resolved(self, *_: Any, **__: Any) -> Any:
            await asyncio.Event().wait()

    async def connect() -> None:
        own = Loop()
        try:
            await own.create_connection(asyncio.Protocol, "h", 1)
        finally:
            own.close()

    async def read() -> None:
        await asyncio.Event().wait()

    found = []
    for work in (connect, read):
        try:
            async with asyncio.timeout(0):
                await work()
        except TimeoutError as error:
            found.append(sent_of(error))
    assert [NO, UNKNOWN] == found


def test_a_stage_that_raises_outside_of_its_calls_says_nothing() -> None:
    assert UNKNOWN is classify(REFUSED).sent
