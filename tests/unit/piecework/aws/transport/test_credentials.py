"""Credentials that change: each try is signed with those of its moment."""

from __future__ import annotations

import asyncio
from typing import Any

from botocore.credentials import ReadOnlyCredentials

from piecework.aws.transport.client import ThinClient
from piecework.aws.transport.sdk import Sdk
from tests.unit.piecework.aws.transport.both import Wire, answer, client

UPDATE = {"TableName": "t", "Key": {}}


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
