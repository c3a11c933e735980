"""Errors of gRPC, databases, certificates, process pools and SDKs, by their types."""

from __future__ import annotations

import errno
import sqlite3
import ssl
from concurrent.futures.process import BrokenProcessPool
from types import SimpleNamespace as Some
from typing import Any

import aiohttp
import pytest

from piecework.errors.classify import classify
from tests.unit.piecework.errors.test_sent import HOST, NO_HANDLE, httpx, of, requests

UNTRUSTED = ssl.SSLCertVerificationError(1, "certificate has expired")


class RpcError(Exception):
    """As grpc raises it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.status = Some(name=name)

    def code(self) -> Any:
        return self.status


class OfWhomError(Exception):
    """As the SDKs of Google and Stripe raise it."""

    def __init__(self, **facts: Any) -> None:
        super().__init__("no")
        vars(self).update(facts)


def locked(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("whatever it says")
    error.sqlite_errorcode = code
    return error


def sql(state: str | None) -> Exception:
    return OfWhomError(sqlstate=state)


@pytest.mark.parametrize(
    ("error", "code", "error_class"),
    [
        (RpcError("UNAVAILABLE"), "tool.http.503_unavailable", "transient"),
        (RpcError("DEADLINE_EXCEEDED"), "tool.connection.timeout", "transient"),
        (RpcError("RESOURCE_EXHAUSTED"), "tool.http.429_rate_limited", "transient"),
        (RpcError("ABORTED"), "tool.http.503_unavailable", "transient"),
        (RpcError("INVALID_ARGUMENT"), "tool.http.400_bad_request", "permanent"),
        (RpcError("ALREADY_EXISTS"), "tool.http.409_conflict", "permanent"),
        (RpcError("INVENTED_LATER"), "runtime.call.unhandled", "permanent"),
        (OfWhomError(code=503), "tool.http.503_unavailable", "transient"),
        (OfWhomError(code=404), "tool.http.404_not_found", "permanent"),
        (OfWhomError(code=1006), "runtime.call.unhandled", "permanent"),
        (OfWhomError(http_status=500), "tool.http.500_server_error", "transient"),
        (OfWhomError(http_status=409), "tool.http.409_conflict", "transient"),
        (OfWhomError(http_status=402), "tool.http.4xx_rejected", "permanent"),
        (locked(5), "tool.database.busy", "transient"),
        (locked(5 | 2 << 8), "tool.database.busy", "transient"),
        (locked(1), "runtime.call.unhandled", "permanent"),
        (sqlite3.OperationalError("?"), "tool.database.busy", "transient"),
        (sql("40P01"), "tool.database.busy", "transient"),
        (sql("23505"), "runtime.call.unhandled", "permanent"),
        (of("psycopg", "OperationalError"), "tool.database.busy", "transient"),
        (BrokenProcessPool("a child died"), "runtime.pool.broken", "transient"),
        (UNTRUSTED, "tool.connection.untrusted", "permanent"),
        (httpx("ConnectError", UNTRUSTED), "tool.connection.untrusted", "permanent"),
        (requests("SSLError"), "tool.connection.untrusted", "permanent"),
        (
            requests("SSLError", ssl.SSLError(1, "bad record")),
            "tool.connection.failed",
            "transient",
        ),
        (
            aiohttp.ClientConnectorCertificateError(HOST, UNTRUSTED),
            "tool.connection.untrusted",
            "permanent",
        ),
        (httpx("LocalProtocolError"), "tool.request.invalid", "permanent"),
        (
            of("requests.exceptions", "MissingSchema"),
            "tool.request.invalid",
            "permanent",
        ),
        (httpx("ConnectError", NO_HANDLE), "runtime.worker.exhausted", "transient"),
        (
            aiohttp.ClientConnectorError(HOST, OSError(errno.EMFILE, "many")),
            "runtime.worker.exhausted",
            "transient",
        ),
        (
            of("tenacity", "RetryError", cause=httpx("ReadTimeout")),
            "tool.connection.failed",
            "transient",
        ),
    ],
    ids=lambda each: repr(each)[:50],
)
def test_an_error_of_a_call_is_known_by_its_type_and_attributes(
    error: Exception, code: str, error_class: str
) -> None:
    found = classify(error, in_call=True)
    assert (code, error_class) == (found.code, found.error_class)
