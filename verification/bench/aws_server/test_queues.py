from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.virtual import run_virtually
from verification.bench.aws_server.client import Client, Reply

URL = "http://127.0.0.1:1/000000000000/q"


def opened(**attributes: str) -> Client:
    """Return a stand-in with a queue."""
    asking = Client(asyncio.get_running_loop())
    made = asking.handle("sqs.CreateQueue", QueueName="q", Attributes=attributes)
    assert {"QueueUrl": URL} == made.said
    return asking


def receive(asking: Client, **more: Any) -> Reply:
    return asking.handle("sqs.ReceiveMessage", QueueUrl=URL, **more)


def send(asking: Client, *bodies: str) -> None:
    entries = [{"Id": body, "MessageBody": body} for body in bodies]
    asking.handle("sqs.SendMessageBatch", QueueUrl=URL, Entries=entries)


def texts(line: Reply) -> list[str]:
    return [message["Body"] for message in line.said.get("Messages", [])]


def test_a_poll_is_answered_when_a_message_comes() -> None:
    async def story() -> None:
        asking = opened()
        first, second = (receive(asking, WaitTimeSeconds=20) for _ in "ab")
        await asyncio.sleep(5)
        assert (b"", b"") == (first.sent, second.sent)

        send(asking, "a", "b")

        assert (["a"], ["b"]) == (texts(first), texts(second))
        assert 2 == asking.aws_server.counts["sqs.ReceiveMessage"][0]

    run_virtually(story())


def test_a_poll_ends_with_nothing_when_its_time_is_over() -> None:
    async def story() -> None:
        asking = opened(ReceiveMessageWaitTimeSeconds="3")
        by_queue, by_request = receive(asking), receive(asking, WaitTimeSeconds=4)
        await asyncio.sleep(3.5)
        assert ({}, b"") == (by_queue.said, by_request.sent)
        await asyncio.sleep(1)
        assert {} == by_request.said

    run_virtually(story())


def test_a_poll_is_answered_when_a_hidden_message_shows() -> None:
    async def story() -> None:
        asking = opened(VisibilityTimeout="2")
        send(asking, "a")
        [message] = receive(asking).said["Messages"]
        late, soon = (receive(asking, WaitTimeSeconds=20) for _ in "ab")
        await asyncio.sleep(2.1)
        assert (["a"], b"") == (texts(late), soon.sent)
        [message] = late.said["Messages"]

        asking.handle(
            "sqs.ChangeMessageVisibility",
            QueueUrl=URL,
            ReceiptHandle=message["ReceiptHandle"],
            VisibilityTimeout=0,
        )

        assert ["a"] == texts(soon)

    run_virtually(story())


def test_a_poll_whose_client_has_died_takes_no_message() -> None:
    async def story() -> None:
        asking = opened()
        connection, _ = asking.open(
            "sqs.ReceiveMessage", QueueUrl=URL, WaitTimeSeconds=20
        )
        connection.connection_lost(None)

        send(asking, "a")

        assert ["a"] == texts(receive(asking))

    run_virtually(story())
