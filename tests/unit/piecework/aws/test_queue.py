from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from piecework.aws.queue import (
    BATCH_TRIES,
    Message,
    Queue,
    Receipt,
    batches,
    describe_malformed,
)
from piecework.domain.refs import ChunkRef
from piecework.errors import StoreError
from tests.unit.piecework.fakes import Lowest

GOOD: dict[str, Any] = {"v": 1, "tenant": "acme", "job": "j", "chunk": 3, "gen": 1}


class Client:
    """Fails entries as it is told: for each round, ids and whose fault it was."""

    def __init__(self, *rounds: dict[int, bool], reply: Any = None) -> None:
        self.rounds = list(rounds)
        self.reply = reply or {}
        self.asked: list[dict[str, Any]] = []

    async def batch(self, **request: Any) -> dict[str, Any]:
        self.asked.append(request)
        fails = self.rounds.pop(0) if self.rounds else {}
        ids = [entry["Id"] for entry in request["Entries"]]
        failed = [
            {"Id": i, "SenderFault": fails[int(i)], "Code": "x"}
            for i in ids
            if int(i) in fails
        ]
        return {"Failed": failed} if failed else {}

    send_message_batch = change_message_visibility_batch = delete_message_batch = batch

    async def one(self, **request: Any) -> Any:
        self.asked.append(request)
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply

    receive_message = get_queue_attributes = one

    def ids(self) -> list[list[str]]:
        return [[e["Id"] for e in request["Entries"]] for request in self.asked]


A, B = Receipt("a"), Receipt("b")


def queue(client: Client) -> Queue:
    return Queue(client, "http://queue", Lowest())  # type: ignore[arg-type]


def messages(count: int) -> list[Message]:
    return [Message.about(ChunkRef("acme", "j", n), 1) for n in range(count)]


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(0, []), (1, [1]), (10, [10]), (11, [10, 1]), (25, [10, 10, 5])],
)
def test_things_are_cut_into_batches_of_ten(count: int, sizes: list[int]) -> None:
    assert sizes == [len(batch) for batch in batches(range(count))]


async def test_messages_are_sent_in_batches() -> None:
    client = Client()
    assert await queue(client).send(messages(12)) == 12
    assert [len(ids) for ids in client.ids()] == [10, 2]
    assert client.asked[1]["Entries"][1] == {
        "Id": "1",
        "MessageBody": messages(12)[11].model_dump_json(),
    }


async def test_nothing_to_send_is_no_request() -> None:
    client = Client()
    assert await queue(client).send([]) == 0
    assert client.asked == []


async def test_exactly_what_failed_is_sent_again() -> None:
    client = Client({1: False, 3: False}, {3: False})
    assert await queue(client).send(messages(4)) == 4
    assert client.ids() == [["0", "1", "2", "3"], ["1", "3"], ["3"]]


async def test_what_sqs_does_not_want_is_not_sent_again_and_not_counted() -> None:
    client = Client({2: True})
    assert await queue(client).send(messages(4)) == 3
    assert len(client.asked) == 1


async def test_what_was_refused_stays_refused_while_others_are_sent_again() -> None:
    client = Client({0: True, 1: False}, {1: True})
    assert await queue(client).send(messages(4)) == 2
    assert client.ids() == [["0", "1", "2", "3"], ["1"]]


async def test_what_fails_for_ever_is_given_up() -> None:
    client = Client(*[{0: False, 1: True}] + [{0: False}] * 20)
    assert await queue(client).send(messages(3)) == 1
    assert len(client.asked) == BATCH_TRIES


async def test_hiding_names_whole_seconds_rounded_up_and_no_more_than_sqs_takes() -> (
    None
):
    client = Client()
    await queue(client).hide([A], 1.2)
    await queue(client).hide([A], 99_999.0)
    await queue(client).hide([A], 0.0)
    seconds = [r["Entries"][0]["VisibilityTimeout"] for r in client.asked]
    assert seconds == [2, 43_140, 0]


async def test_exactly_what_failed_is_hidden_again_with_its_seconds() -> None:
    client = Client({1: False})
    await queue(client).hide([A, B], 3.0)
    assert client.asked[1]["Entries"] == [
        {"Id": "1", "ReceiptHandle": "b", "VisibilityTimeout": 3}
    ]


async def test_exactly_what_failed_is_deleted_again() -> None:
    client = Client({0: False})
    await queue(client).delete([A, B])
    assert client.asked[1]["Entries"] == [{"Id": "0", "ReceiptHandle": "a"}]


async def test_a_receipt_that_is_gone_is_no_loss() -> None:
    client = Client({0: True})
    await queue(client).delete([A])
    await queue(client).hide([A], 1.0)
    assert len(client.asked) == 2


async def test_receiving_asks_for_no_more_than_sqs_gives() -> None:
    client = Client()
    assert await queue(client).receive(50, wait_s=20, hide_s=0.5) == []
    assert client.asked[0] == {
        "QueueUrl": "http://queue",
        "MaxNumberOfMessages": 10,
        "WaitTimeSeconds": 20,
        "VisibilityTimeout": 1,
        "MessageSystemAttributeNames": ["ApproximateReceiveCount"],
    }


async def test_what_was_received_is_read() -> None:
    found = {"Body": json.dumps(GOOD), "ReceiptHandle": "r", "MessageId": "m"}
    client = Client(reply={"Messages": [found, found | {"Body": "x"}]})
    first, second = await queue(client).receive(3, wait_s=0, hide_s=1)
    assert client.asked[0]["MaxNumberOfMessages"] == 3
    assert first.message == Message(**GOOD)
    assert second.message is None


async def test_the_depth_counts_the_hidden_and_the_delayed() -> None:
    attributes = {
        "ApproximateNumberOfMessages": "3",
        "ApproximateNumberOfMessagesNotVisible": "4",
        "ApproximateNumberOfMessagesDelayed": "5",
    }
    client = Client(reply={"Attributes": attributes})
    assert await queue(client).depth() == 12
    assert [sorted(attributes)] == [sorted(r["AttributeNames"]) for r in client.asked]


async def test_no_batch_of_receipts_is_left_out() -> None:
    receipts = [Receipt(str(number)) for number in range(12)]
    hidden, deleted = Client(), Client()
    await queue(hidden).hide(receipts, 1.0)
    await queue(deleted).delete(receipts)
    for client in (hidden, deleted):
        entries = [e for request in client.asked for e in request["Entries"]]
        assert [each.handle for each in receipts] == [
            entry["ReceiptHandle"] for entry in entries
        ]


def test_a_malformed_message_is_described_by_all_its_known_fields() -> None:
    body = json.dumps(GOOD | {"gen": "x y", "more": 1})
    assert describe_malformed(body).endswith(
        "chunk=3, job=j, tenant=acme, v=1; 2 other fields"
    )


@pytest.mark.parametrize(
    "error",
    [
        ClientError({"Error": {"Code": "QueueDoesNotExist"}}, "ReceiveMessage"),
        EndpointConnectionError(endpoint_url="http://queue"),
    ],
)
async def test_a_queue_that_does_not_answer_is_the_stores_failure(
    error: Exception,
) -> None:
    with pytest.raises(StoreError):
        await queue(Client(reply=error)).receive(1, wait_s=0, hide_s=1)
