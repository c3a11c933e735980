"""Throttles are counted where botocore hears of them, before it tries again."""

from __future__ import annotations

from random import Random
from typing import Any

import aiobotocore.session
import pytest
from aiobotocore.config import AioConfig
from aiobotocore.httpsession import AIOHTTPSession

from piecework.telemetry.emf import WHOLE, Meter
from piecework.telemetry.emit import emit_throttles, find_throttle_code, listening


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"Error": {"Code": "ThrottlingException"}}, "ThrottlingException"),
        ({"Error": {"Code": "SlowDown"}}, "SlowDown"),
        (
            {
                "Error": {"Code": "TransactionCanceledException"},
                "CancellationReasons": [{"Code": "None"}, {"Code": "ThrottlingError"}],
            },
            "ThrottlingError",
        ),
        ({"Error": {"Code": "ConditionalCheckFailedException"}}, ""),
        ({"Error": {"Code": "TransactionConflictException"}}, ""),
        ({"Messages": []}, ""),
        (None, ""),
    ],
)
def test_a_throttle_differs_from_every_other_answer(answer: Any, code: str) -> None:
    assert find_throttle_code(answer) == code


class Answer:
    """An answer as it comes from the network."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status_code, self.headers, self.body = status, {}, body

    @property
    async def content(self) -> bytes:
        return self.body


class Throttling:
    """Refuses twice, then answers; in the place of the network."""

    def __init__(self) -> None:
        self.asked = 0

    async def send(self, _request: Any) -> Answer:
        self.asked += 1
        if self.asked < 3:
            return Answer(400, b'{"__type": "com.amazon.coral#ThrottlingException"}')
        return Answer(200, b'{"QueueUrl": "http://queue"}')


async def test_those_that_the_sdk_retries_by_itself_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network, meter = Throttling(), Meter(Random(1))
    monkeypatch.setattr(AIOHTTPSession, "send", lambda _, asked: network.send(asked))
    monkeypatch.setattr("asyncio.sleep", no_wait)
    session = aiobotocore.session.get_session()
    given: dict[str, Any] = {
        "region_name": "us-east-1",
        "aws_access_key_id": "a",
        "aws_secret_access_key": "b",
        "config": AioConfig(retries={"mode": "standard", "total_max_attempts": 4}),
    }
    async with session.create_client("sqs", **given) as client:
        emit_throttles(client)
        with listening(meter.count):
            await client.get_queue_url(QueueName="work")

    assert network.asked == 3
    assert meter.take()[WHOLE]["Throttles"] == 2


async def no_wait(_seconds: float) -> None:
    """Wait for nothing."""
