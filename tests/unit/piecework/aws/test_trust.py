"""The clients of a runtime check certificates: real handshakes with test servers."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from aiobotocore.config import AioConfig
from botocore.exceptions import SSLError

import piecework.aws
from piecework.aws.endpoint import Endpoint
from piecework.aws.trust import tls_error
from piecework.cost.meter import CostMeter
from piecework.errors import UsageError
from piecework.runtime import Clients
from piecework.settings import Settings
from tests.unit.piecework.aws.transport.certificate import certified

ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n"
    b"x-amzn-RequestId: an id\r\nx-amz-crc32: %d\r\n\r\n{}" % crc32(b"{}")
)
ROOT = Path(__file__).parents[4]
HERE = "127.0.0.1"
ONCE = {"mode": "standard", "total_max_attempts": 1}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a secret")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))


async def answer(came: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        await came.readuntil(b"\r\n\r\n")
        to.write(ANSWER)
    await closed(to)


@asynccontextmanager
async def listening(handle: Any, tls: ssl.SSLContext | None) -> AsyncIterator[int]:
    """Yield the port of a server; wait for its connections at the end."""
    callers: list[asyncio.Task[None]] = []

    def called(came: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        callers.append(asyncio.create_task(handle(came, to)))

    async with await asyncio.start_server(called, HERE, 0, ssl=tls) as server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*callers)


def trusted_file(trusted: ssl.SSLContext, folder: Path) -> str:
    """Write the certificates that a machine trusts."""
    path = folder / "trusted.pem"
    found = trusted.get_ca_certs(binary_form=True)
    path.write_text("".join(map(ssl.DER_cert_to_PEM_cert, found)))
    return str(path)


async def ask(wire: str) -> dict[str, Any]:
    """Send DynamoDB one request, as a runtime does, or as a user's own call."""
    session = piecework.aws.session(region_name="us-east-1")
    if wire == "own":
        async with session.client("dynamodb", config=AioConfig(retries=ONCE)) as own:
            return dict(await own.get_item(TableName="t", Key={"pk": {"S": "a"}}))
    settings = Settings(aws_transport=wire)
    async with AsyncExitStack() as stack:
        nowhere = Endpoint("", "aws", "us-east-1")
        clients = Clients(session, stack, settings, nowhere, CostMeter())
        client = await clients.open("dynamodb")
        return dict(await client.get_item(TableName="t", Key={"pk": {"S": "a"}}))


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("piecework.runtime.RETRIES", ONCE)


@pytest.mark.parametrize("wire", ["thin", "sdk", "own"])
@pytest.mark.parametrize("name", ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"])
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_no_request_to_this_machine_goes_through_a_proxy(
    wire: str,
    name: str,
    scheme: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    shown, trusted = certified("localhost")
    monkeypatch.setenv(name, f"http://{HERE}:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    if scheme == "https":
        monkeypatch.setenv("AWS_CA_BUNDLE", trusted_file(trusted, tmp_path))
    else:
        monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "none.pem"))
    async with listening(answer, shown if scheme == "https" else None) as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", f"{scheme}://localhost:{port}")
        reply = await ask(wire)
    assert 200 == reply["ResponseMetadata"]["HTTPStatusCode"]


async def test_a_request_to_aws_keeps_to_the_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://{HERE}:9")
    monkeypatch.setenv("NO_PROXY", "sqs.us-east-1.amazonaws.com")
    async with AsyncExitStack() as stack:
        proxies = {}
        session = piecework.aws.session(region_name="us-east-1")
        for service in ("dynamodb", "sqs"):
            client = await stack.enter_async_context(session.client(service))
            http, url = client._endpoint.http_session, client.meta.endpoint_url
            proxies[service] = http._proxy_config.proxy_url_for(url)
    assert {"dynamodb": f"http://{HERE}:9", "sqs": None} == proxies


@pytest.mark.parametrize("variable", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"])
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "which does not exist"),
        ("no certificate", "which has no certificate"),
    ],
)
async def test_a_bundle_that_cannot_be_used_is_named(
    variable: str,
    content: str | None,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    path = tmp_path / "bundle.pem"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv(variable, str(path))
    with pytest.raises(UsageError, match=problem) as caught:
        await ask("thin")
    assert f"{variable} names {path}" in caught.value.message
    assert f"unset {variable}" in caught.value.next_step


def verified(code: int, message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "whatever it says")
    error.verify_code, error.verify_message = code, message
    return error


def not_tls() -> ssl.SSLError:
    error = ssl.SSLError(1, "whatever it says")
    error.reason = "WRONG_VERSION_NUMBER"
    return error


@pytest.mark.parametrize(
    ("error", "bundle", "says", "step"),
    [
        (
            verified(10, "certificate has expired"),
            "",
            "has expired",
            "2027-01-15 08:00",
        ),
        (
            verified(9, "not yet valid"),
            "",
            "not yet valid",
            "The clock of this machine",
        ),
        (verified(20, "no issuer"), "", "no issuer", "set AWS_CA_BUNDLE"),
        (verified(19, "self-signed"), "/ours.pem", "self-signed", "to /ours.pem"),
        (verified(62, "mismatch"), "", "mismatch", "AWS_ENDPOINT_URL"),
        (not_tls(), "", "does not answer with TLS", "https://"),
    ],
)
def test_a_failure_of_tls_says_which_certificate_bundle_or_clock(
    error: ssl.SSLError, bundle: str, says: str, step: str
) -> None:
    raised = SSLError(endpoint_url="https://aws.example", error=error)
    raised.__context__ = error
    environ = {"AWS_CA_BUNDLE": bundle} if bundle else {}
    found = tls_error(raised, "https://aws.example", 1_800_000_000.0, environ)
    assert found is not None
    assert "aws.endpoint.untrusted" == found.code
    assert says in found.message
    assert step in found.next_step
    assert tls_error(TimeoutError(), "AWS", 0.0, {}) is None


@pytest.mark.attack("certificates")
@pytest.mark.parametrize("wire", ["thin", "sdk", "own"])
@pytest.mark.parametrize("shows", ["localhost", "another.example"])
async def test_a_certificate_for_another_host_is_refused(
    wire: str, shows: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown, trusted = certified(shows)
    monkeypatch.setenv("AWS_CA_BUNDLE", trusted_file(trusted, tmp_path))
    async with listening(answer, shown) as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", f"https://localhost:{port}")
        if shows == "localhost":
            reply = await ask(wire)
            assert 200 == reply["ResponseMetadata"]["HTTPStatusCode"]
        else:
            with pytest.raises(SSLError, match=r"[Hh]ostname mismatch"):
                await ask(wire)


@pytest.mark.attack("certificates")
@pytest.mark.parametrize("trusts", [True, False])
async def test_behind_a_proxy_a_certificate_is_checked_too(
    trusts: bool,  # noqa: FBT001 -- a parameter of a test
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    shown, trusted = certified("dynamodb.us-east-1.amazonaws.com")
    if trusts:
        monkeypatch.setenv("AWS_CA_BUNDLE", trusted_file(trusted, tmp_path))
    async with listening(answer, shown) as port:

        async def proxy(came: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
            await came.readuntil(b"\r\n\r\n")
            back, there = await asyncio.open_connection(HERE, port)
            to.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(carry(came, there), carry(back, to))
            await asyncio.gather(closed(there), closed(to))

        async with listening(proxy, None) as at:
            monkeypatch.setenv("HTTPS_PROXY", f"http://{HERE}:{at}")
            if trusts:
                reply = await ask("thin")
                assert 200 == reply["ResponseMetadata"]["HTTPStatusCode"]
            else:
                with pytest.raises(SSLError, match=r"self.signed certificate"):
                    await ask("thin")


async def carry(come: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await come.read(65_536):
            to.write(data)
    to.close()


async def closed(to: asyncio.StreamWriter) -> None:
    to.close()
    with suppress(ConnectionError, ssl.SSLError):
        await to.wait_closed()


@pytest.mark.attack("certificates")
def test_no_other_place_makes_sessions() -> None:
    """Clients of plain sessions accept a certificate of any host."""
    plain = re.compile(r"aioboto3\.Session\(|\b(?:get_session|AioSession)\(")
    rooms = ("piecework", "workers", "orchestrator", "simulation", "examples")
    found = [
        path.relative_to(ROOT).as_posix()
        for room in rooms
        for path in (ROOT / room).rglob("*.py")
        if plain.search(path.read_text("utf-8"))
    ]
    assert found == []
