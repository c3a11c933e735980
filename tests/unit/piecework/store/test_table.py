from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from piecework.errors import StoreError
from piecework.store.table import (
    CONTENTION_S,
    ItemWrite,
    Refused,
    Table,
    Written,
    contended,
    read_refusal,
)
from piecework_simulation.engine.loop import Loop
from tests.unit.piecework.fakes import Lowest

ITEM = {"status": {"S": "DONE"}}


def error(code: str, *reasons: str, item: Any = None) -> ClientError:
    response: dict[str, Any] = {"Error": {"Code": code, "Message": code}}
    if item:
        response["Item"] = item
    if reasons:
        response["CancellationReasons"] = [
            {"Code": reason, **({"Item": ITEM} if "Check" in reason else {})}
            for reason in reasons
        ]
    return ClientError(response, "UpdateItem")  # type: ignore[arg-type]


CANCELLED = "TransactionCanceledException"
FAILED = "ConditionalCheckFailed"


class Client:
    """Raises the given errors in turn, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.asked: list[dict[str, Any]] = []

    async def write(self, **request: Any) -> dict[str, Any]:
        self.asked.append(request)
        if self.errors:
            raise self.errors.pop(0)
        return {"Attributes": {"fence": {"N": "2"}}}

    update_item = put_item = transact_write_items = write


def table(client: Client) -> Table:
    return Table(client, "t", Lowest())  # type: ignore[arg-type]


def item_write(**parts: Any) -> ItemWrite:
    return ItemWrite("Update", "t", "p", "s", **({"update": "SET a = :a"} | parts))


def test_a_request_names_what_its_expressions_mark() -> None:
    request = item_write(
        condition="#status = :seen AND gen = :gen",
        update="SET #status = :to, #value = :v",
        values={"seen": "A", "gen": 1, "to": "B", "v": "x"},
    ).request()
    assert request["ExpressionAttributeNames"] == {
        "#status": "status",
        "#value": "value",
    }
    assert request["ExpressionAttributeValues"][":gen"] == {"N": "1"}
    assert request["Key"] == {"pk": {"S": "p"}, "sk": {"S": "s"}}
    assert request["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD"


def test_a_request_without_marks_or_values_has_no_empty_maps() -> None:
    request = ItemWrite("Put", "t", "p", "s", item={"a": 1}).request()
    assert set(request) == {"TableName", "Item"}
    assert request["Item"]["pk"] == {"S": "p"}


async def test_a_write_says_what_it_left() -> None:
    assert await table(Client()).update(item_write()) == Written({"fence": 2})


async def test_a_condition_that_does_not_hold_is_an_answer_with_the_item() -> None:
    refused = error("ConditionalCheckFailedException", item=ITEM)
    assert await table(Client(refused)).update(item_write()) == Refused(
        {"status": "DONE"}
    )
    absent = error("ConditionalCheckFailedException")
    assert await table(Client(absent)).put(item_write()) == Refused(None)


async def test_a_transaction_says_which_conditions_did_not_hold() -> None:
    client = Client(error(CANCELLED, "None", FAILED, "TransactionConflict"))
    reply = await table(client).transact([item_write()] * 3)
    assert reply == Refused({"status": "DONE"}, {1: {"status": "DONE"}})


@pytest.mark.parametrize(
    "met",
    [
        error("TransactionConflictException"),
        error("TransactionInProgressException"),
        error(CANCELLED, "None", "TransactionConflict"),
        error(CANCELLED, "ThrottlingError", "TransactionConflict"),
        error(CANCELLED, "ProvisionedThroughputExceeded"),
        error("ProvisionedThroughputExceededException"),
        error("ThrottlingException"),
    ],
)
async def test_contention_is_no_answer_and_the_same_request_is_sent_again(
    met: ClientError,
) -> None:
    client = Client(met, met)
    assert await table(client).transact([item_write()]) == Written({})
    assert len(client.asked) == 3
    assert client.asked[0] == client.asked[2]
    assert client.asked[0]["ClientRequestToken"]


async def test_two_transactions_have_two_tokens() -> None:
    client = Client()
    one = table(client)
    await one.transact([item_write()])
    await one.transact([item_write()])
    tokens = {request["ClientRequestToken"] for request in client.asked}
    assert len(tokens) == 2


@pytest.mark.parametrize(
    ("met", "longest_s", "code"),
    [
        ("TransactionConflictException", 0.1, "aws.transaction.conflict"),
        ("ThrottlingException", 1.0, "aws.service.throttled"),
    ],
)
def test_contention_without_end_is_the_stores_failure(
    met: str, longest_s: float, code: str
) -> None:
    """The last try follows after half a minute."""
    client = Client(*[error(met)] * 1000)
    loop = Loop(Random(1))  # type: ignore[abstract] # sockets are

    async def write() -> float:
        began = loop.time()
        with pytest.raises(StoreError) as raised:
            await Table(client, "t", Random(1)).update(item_write())  # type: ignore[arg-type]
        assert raised.value.code == code
        return loop.time() - began

    lasted_s = loop.run(write())
    assert CONTENTION_S <= lasted_s <= CONTENTION_S + longest_s
    assert CONTENTION_S < len(client.asked) * longest_s < 4 * CONTENTION_S


class Batches:
    """Answers each statement of a batch with the next of its errors, if any is left.

    Attributes:
        whole: The errors of whole batches, which come first.
    """

    def __init__(self, *whole: ClientError, **errors: list[str]) -> None:
        self.whole = iter(whole)
        self.errors = {key: iter(codes) for key, codes in errors.items()}
        self.asked: list[list[str]] = []

    async def batch_execute_statement(self, **request: Any) -> dict[str, Any]:
        keys = [s["Parameters"][1]["S"] for s in request["Statements"]]
        self.asked.append(keys)
        for wrong in self.whole:
            raise wrong
        codes = [next(self.errors.get(key, iter(())), "") for key in keys]
        return {"Responses": [{"Error": {"Code": c}} if c else {} for c in codes]}


def new_items(*names: str) -> list[ItemWrite]:
    return [ItemWrite("Put", "t", "p", name, item={"a": 1}) for name in names]


async def test_items_are_created_each_by_itself() -> None:
    client: Any = Batches(
        b=["DuplicateItem"],
        c=["TransactionConflict", "DuplicateItem"],
        d=["ThrottlingError", "InternalServerError"],
    )
    existed = await table(client).insert(new_items("a", "b", "c", "d"))
    assert existed == {1, 2}
    assert client.asked == [["a", "b", "c", "d"], ["c", "d"], ["d"]]


async def test_a_batch_that_is_throttled_as_a_whole_is_sent_again() -> None:
    client: Any = Batches(error("ThrottlingException"), b=["DuplicateItem"])
    assert await table(client).insert(new_items("a", "b")) == {1}
    assert client.asked == [["a", "b"], ["a", "b"]]


async def test_an_item_that_may_not_be_created_ends_the_batch() -> None:
    client: Any = Batches(a=["ThrottlingError"], b=["AccessDenied"])
    with pytest.raises(StoreError) as raised:
        await table(client).insert(new_items("a", "b"))
    assert raised.value.code == "aws.access.denied"
    assert len(client.asked) == 1


async def test_an_answer_with_too_few_parts_is_an_outage() -> None:
    async def cut(**_: Any) -> Any:
        return {"Responses": [{}]}

    client: Any = SimpleNamespace(batch_execute_statement=cut)
    with pytest.raises(StoreError) as raised:
        await table(client).insert(new_items("a", "b"))
    assert raised.value.is_outage


@pytest.mark.parametrize(
    "failure",
    [
        error("ValidationException"),
        error(CANCELLED, "ValidationError"),
        error(CANCELLED, "TransactionConflict", "ValidationError"),
        error("ResourceNotFoundException"),
        EndpointConnectionError(endpoint_url="http://dynamodb"),
    ],
)
async def test_any_other_failure_is_sent_once_and_is_the_stores(
    failure: Exception,
) -> None:
    client = Client(failure)
    with pytest.raises(StoreError):
        await table(client).update(item_write())
    assert len(client.asked) == 1


def test_one_failed_condition_makes_a_refusal_whatever_else_was_contended() -> None:
    mixed = error(CANCELLED, "TransactionConflict", FAILED)
    assert read_refusal(mixed) == Refused({"status": "DONE"}, {1: {"status": "DONE"}})
    assert read_refusal(error(CANCELLED, "TransactionConflict")) is None


def test_what_is_contention_and_what_is_not() -> None:
    assert contended(error(CANCELLED, "None", "TransactionConflict")) is True
    assert contended(error(CANCELLED, "None", "ValidationError")) is False
    assert contended(error("ValidationException")) is False


@pytest.mark.parametrize("answer", [{}, {"Items": None}, {"Items": {}}, [], "<html>"])
async def test_an_answer_without_its_items_is_an_outage(answer: Any) -> None:
    async def read(**_: Any) -> Any:
        return answer

    client: Any = SimpleNamespace(query=read, scan=read)
    here = Table(client, "t", Lowest())  # type: ignore[arg-type]
    for reading in (
        here.first("p", 1),
        here.count("p", "s"),
        anext(here.query("p")),
        anext(here.scan()),
    ):
        with pytest.raises(StoreError) as raised:
            await reading
        assert raised.value.is_outage
