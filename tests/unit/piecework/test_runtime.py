"""The clients that a runtime opens, before their first request."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiobotocore.session import AioSession

from piecework.aws.endpoint import Endpoint
from piecework.cost.meter import CostMeter
from piecework.runtime import Clients, session_for
from piecework.settings import Settings


@pytest.mark.parametrize(("patience", "connects"), [(0.5, 0.5), (10.0, 5)])
async def test_a_client_waits_no_longer_for_a_connection_than_for_an_answer(
    patience: float, connects: float
) -> None:
    nowhere = Endpoint("http://127.0.0.1:9", "embedded", "us-east-1")
    session = session_for(nowhere)
    async with AsyncExitStack() as stack:
        clients = Clients(session, stack, Settings(), nowhere, CostMeter())
        client = await clients.open("dynamodb", patience)

        assert connects == client.meta.config.connect_timeout
        assert patience == client.meta.config.read_timeout


class OfTheProgram:
    """A session that a program has already; `plain` makes its clients."""

    region_name = "eu-west-1"

    def __init__(self, plain: Any) -> None:
        self.plain = plain

    def client(self, service_name: str, **arguments: Any) -> Any:
        return self.plain(service_name, **arguments)


def plain_session() -> Any:
    return OfTheProgram(AioSession().create_client)


def session_of_aioboto3() -> Any:
    return pytest.importorskip("aioboto3").Session(region_name="eu-west-1")


@pytest.mark.parametrize("make", [plain_session, session_of_aioboto3])
async def test_a_client_of_a_session_that_the_program_has_checks_who_answers(
    make: Callable[[], Any],
) -> None:
    nowhere = Endpoint("http://127.0.0.1:9", "embedded", "us-east-1")
    async with AsyncExitStack() as stack:
        clients = Clients(make(), stack, Settings(), nowhere, CostMeter())
        client = await clients.open("s3")

        assert "us-east-1" == client.meta.region_name
        assert client._endpoint.http_session._get_ssl_context().check_hostname


async def context_of(url: str, service: str = "s3") -> ssl.SSLContext:
    """Return the context with which a new client of this endpoint checks answers."""
    where = Endpoint(url, "embedded", "us-east-1")
    async with AsyncExitStack() as stack:
        clients = Clients(None, stack, Settings(), where, CostMeter())
        client = await clients.open_sdk(service, 1.0)
        http = client._endpoint.http_session
        if not hasattr(http, "_build_verify_context"):
            pytest.skip("this version of the SDK has no such part")
        found: ssl.SSLContext = http._build_verify_context()
        return found


async def test_the_trusted_certificates_are_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    shared = await context_of("https://s3.example")
    assert shared is await context_of("https://other.example", "sts")
    assert shared.get_ca_certs()
    assert (True, ssl.CERT_REQUIRED) == (shared.check_hostname, shared.verify_mode)

    plain = await context_of("http://127.0.0.1:9")
    assert not plain.get_ca_certs()
    assert ssl.CERT_REQUIRED == plain.verify_mode

    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    assert shared is not await context_of("https://s3.example")
