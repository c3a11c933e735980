"""The thin path is taken where it is sure; else the SDK, and that is said once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import botocore
import pytest
from aiobotocore.credentials import AioCredentials
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import CredentialRetrievalError

from piecework.aws.transport.client import ThinClient, thin_client
from piecework.aws.transport.sdk import Sdk
from piecework.telemetry.emit import listening
from tests.unit.piecework.aws.transport.both import Wire, answer, both, client

UPDATE = {"TableName": "t", "Key": {}}
FALLBACK = "transport.fallback_used"


async def opened(made: Any, change: Any = None) -> tuple[bool, list[Any]]:
    """Open it, and say if it became a thin one, and what was told."""
    told: list[Any] = []

    def hear(name: str, fields: Mapping[str, Any]) -> None:
        told.append((name, dict(fields)))

    async with AsyncExitStack() as stack:
        sdk = await stack.enter_async_context(made)
        if change is not None:
            change(sdk)
        with listening(hear):
            found = thin_client(sdk, stack)
        assert isinstance(found, ThinClient) or found is sdk
        return isinstance(found, ThinClient), told


@pytest.mark.parametrize("service", ["dynamodb", "sqs"])
async def test_a_client_of_the_usual_make_becomes_thin(service: str) -> None:
    assert (True, []) == await opened(client(service, None))


def without_credentials(sdk: Any) -> None:
    sdk._request_signer._credentials = None


def without_checks(sdk: Any) -> None:
    sdk._endpoint.http_session._verify = False


def with_own_certificate(sdk: Any) -> None:
    sdk._endpoint.http_session._cert_file = "mine.pem"


def otherwise_made(sdk: Any) -> None:
    del sdk._response_parser


def through_another_session(sdk: Any) -> None:
    class Another(type(sdk._endpoint.http_session)):  # type: ignore[misc]
        pass

    sdk._endpoint.http_session.__class__ = Another


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (without_credentials, "there are no credentials"),
        (without_checks, "certificates are not checked"),
        (with_own_certificate, "it shows a certificate"),
        (through_another_session, "its HTTP session is another"),
        (otherwise_made, "this version of the SDK has no _response_parser"),
    ],
)
async def test_where_it_cannot_be_sure_the_sdk_does_all(
    change: Any, reason: str
) -> None:
    told = [(FALLBACK, {"service": "dynamodb", "reason": reason})]

    assert (False, told) == await opened(client("dynamodb", None), change)


async def test_a_proxy_is_the_sdks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    told = [(FALLBACK, {"service": "sqs", "reason": "a proxy is configured"})]

    assert (False, told) == await opened(client("sqs", None))

    monkeypatch.setenv("NO_PROXY", ".amazonaws.com")
    assert (True, []) == await opened(client("sqs", None))


async def test_another_protocol_is_the_sdks() -> None:
    told = [(FALLBACK, {"service": "sts", "reason": "its protocol is not JSON"})]

    assert (False, told) == await opened(client("sts", None))


class Credentials:
    """Credentials that are refreshed, or cannot be."""

    def __init__(self, *pairs: Any) -> None:
        self.pairs = list(pairs)

    async def get_frozen_credentials(self) -> ReadOnlyCredentials:
        found = self.pairs.pop(0)
        if isinstance(found, Exception):
            raise found
        return ReadOnlyCredentials(*found)

    async def get_account_id(self) -> None:
        return None


async def asked(times: int, credentials: Any) -> list[str]:
    """Ask so many times with what the credentials are then; return who signed."""
    wire: Any = Wire([answer()])
    async with client("dynamodb", None) as sdk:
        inside = Sdk(sdk)
        inside.credentials = credentials
        found = ThinClient(inside, wire, clock=lambda: 0.0)
        for _ in range(times):
            await found.update_item(**UPDATE)
    return [
        f"{sent.headers['authorization'].split('/')[0].split('=')[1]} "
        f"{sent.headers.get('x-amz-security-token', '-')}"
        for sent in wire.sent
    ]


async def test_each_request_is_signed_with_the_credentials_of_its_moment() -> None:
    one, two = ("AKIDONE", "s1", None), ("AKIDTWO", "s2", "a token")
    found = await asked(4, Credentials(one, one, two, two))

    assert ["AKIDONE -"] * 2 + ["AKIDTWO a token"] * 2 == found


async def test_credentials_that_cannot_be_had_are_the_callers_to_hear_of() -> None:
    lost = CredentialRetrievalError(provider="metadata", error_msg="gone")

    with pytest.raises(CredentialRetrievalError):
        await asked(2, Credentials(("AKIDONE", "s1", None), lost))


@pytest.mark.parametrize("day", [0.0, 86_399.0, 86_400.0])
async def test_the_key_is_the_days(day: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import UTC, datetime

    moment = datetime.fromtimestamp(day, UTC).replace(tzinfo=None)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: moment)
    wires: Any = Wire([answer()]), Wire([answer()])
    times = iter([0.0, day])
    async with client("dynamodb", None) as sdk:
        sdk.meta.events.register("before-send", wires[0].stand_in)
        await sdk.update_item(**UPDATE)
        found = ThinClient(Sdk(sdk), wires[1], clock=lambda: next(times))
        await found.update_item(**UPDATE)
        await found.update_item(**UPDATE)

    assert wires[0].sent[0].headers == wires[1].sent[1].headers


class Untouched:
    """Connections that must not be asked."""

    async def send(self, *_: Any) -> Any:
        raise AssertionError


@pytest.mark.parametrize(
    ("credentials", "version", "params"),
    [
        (AioCredentials("AKIDEXAMPLE\n", "secret"), "v4", {}),
        (AioCredentials("AKIDEXAMPLE", "secret", "a\r\nX-Other: token"), "v4", {}),
        (AioCredentials("AKIDEXAMPLE", "secret"), botocore.UNSIGNED, {}),
        (
            AioCredentials("AKIDEXAMPLE", "secret"),
            "v4",
            {"ExpressionAttributeValues": {":b": {"B": bytearray(b"binary")}}},
        ),
    ],
)
async def test_what_it_cannot_send_itself_is_sent_by_the_sdk(
    credentials: Any, version: Any, params: dict[str, Any]
) -> None:
    untouched: Any = Untouched()
    wire = Wire([answer('{"Attributes": {}}')])
    async with client("dynamodb", None) as sdk:
        sdk.meta.events.register("before-send", wire.stand_in)
        inside = Sdk(sdk)
        inside.credentials = credentials

        async def choose(*_: Any) -> Any:
            return version

        inside.choose_signer = choose
        found = await ThinClient(inside, untouched).update_item(**UPDATE, **params)

    assert {} == found["Attributes"]
    assert 1 == len(wire.sent)


async def test_what_is_not_hot_is_the_sdks_own() -> None:
    untouched: Any = Untouched()
    async with both("dynamodb") as pair:
        found = ThinClient(Sdk(pair.sdk), untouched)

        assert found.describe_table == pair.sdk.describe_table
        assert found.meta is pair.sdk.meta
        with pytest.raises(AttributeError):
            found.receive_message  # noqa: B018 -- its absence is the point
