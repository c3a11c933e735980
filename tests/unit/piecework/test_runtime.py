"""The clients that a runtime opens, before their first request."""

from __future__ import annotations

from contextlib import AsyncExitStack

import aioboto3
import pytest

from piecework.aws.endpoint import Endpoint
from piecework.cost.meter import CostMeter
from piecework.runtime import Clients
from piecework.settings import Settings


@pytest.mark.parametrize(("patience", "connects"), [(0.5, 0.5), (10.0, 5)])
async def test_a_client_waits_no_longer_for_a_connection_than_for_an_answer(
    patience: float, connects: float
) -> None:
    nowhere = Endpoint("http://127.0.0.1:9", "embedded", "us-east-1")
    session = aioboto3.Session(**nowhere.session_arguments())
    async with AsyncExitStack() as stack:
        clients = Clients(session, stack, Settings(), nowhere, CostMeter())
        client = await clients.open("dynamodb", patience)

        assert connects == client.meta.config.connect_timeout
        assert patience == client.meta.config.read_timeout
