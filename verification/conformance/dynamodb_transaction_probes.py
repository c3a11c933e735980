"""Probe DynamoDB transactions: all or nothing, and once per token."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from botocore.exceptions import ClientError

from verification.conformance.items import expressed, item, key, put, row, show
from verification.conformance.probe import probe
from verification.conformance.subject import Subject

INVALID = "ValidationException"


def put_of(subject: Subject, sk: str, condition: str = "", /, **values: Any) -> Any:
    found = {"TableName": subject.table, "Item": row(sk, **values)}
    return {"Put": found | expressed("", condition) | asking(condition)}


def update_of(
    subject: Subject, sk: str, text: str, condition: str = "", /, **values: Any
) -> Any:
    found = {"TableName": subject.table, "Key": key(sk)}
    return {"Update": found | expressed(text, condition, **values) | asking(condition)}


def asking(condition: str) -> dict[str, str]:
    return {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"} if condition else {}


async def transact(subject: Subject, *actions: Any, token: str = "") -> str:
    """Send a transaction; return the reasons if it is cancelled."""
    tokens = {"ClientRequestToken": token} if token else {}
    try:
        await subject.dynamodb.transact_write_items(
            TransactItems=list(actions), **tokens
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "TransactionCanceledException":
            raise
        return " | ".join(map(reason, error.response["CancellationReasons"]))
    return "done"


def reason(found: Any) -> str:
    told = f" {show(found['Item'])}" if found.get("Item") else ""
    return f"{found['Code']}{told}"


@probe("a transaction is all or nothing", expected="None | ConditionalCheckFailed: n=1")
async def _(subject: Subject) -> str:
    await put(subject, "a", n=1)
    said = await transact(
        subject,
        update_of(subject, "a", "SET n = :two", two=2),
        put_of(subject, "b"),
        update_of(subject, "c", "SET n = :two", "attribute_exists(pk)", two=2),
    )
    first, _, last = said.split(" | ")
    return f"{first} | {last}: {await item(subject, 'a')}"


@probe(
    "each action of a cancelled transaction has its reason",
    expected="None | ConditionalCheckFailed n=1 | ConditionalCheckFailed",
)
async def _(subject: Subject) -> str:
    await put(subject, "b", n=1)
    return await transact(
        subject,
        put_of(subject, "a"),
        put_of(subject, "b", "attribute_not_exists(pk)"),
        update_of(subject, "c", "SET n = :two", "n = :two", two=2),
    )


@probe("a check of a condition writes nothing", expected="done: n=1, nothing")
async def _(subject: Subject) -> str:
    await put(subject, "a", n=1)
    check = {"TableName": subject.table, "Key": key("a")}
    absent = {"TableName": subject.table, "Key": key("b")}
    said = await transact(
        subject,
        {"ConditionCheck": check | expressed("", "n = :one", one=1)},
        {"ConditionCheck": absent | expressed("", "attribute_not_exists(pk)")},
    )
    return f"{said}: {await item(subject, 'a')}, {await item(subject, 'b')}"


@probe("all four kinds of action at once", expected="done: n=1 nothing n=3 nothing")
async def _(subject: Subject) -> str:
    await put(subject, "b", n=2)
    absent = {"TableName": subject.table, "Key": key("d")}
    said = await transact(
        subject,
        put_of(subject, "a", n=1),
        {"Delete": {"TableName": subject.table, "Key": key("b")}},
        update_of(subject, "c", "ADD n :three", three=3),
        {"ConditionCheck": absent | expressed("", "attribute_not_exists(pk)")},
    )
    items = [await item(subject, sk) for sk in "abcd"]
    return f"{said}: {' '.join(items)}"


@probe("a delete of an absent item goes with the others", expected="done: n=1")
async def _(subject: Subject) -> str:
    absent = {"Delete": {"TableName": subject.table, "Key": key("b")}}
    said = await transact(subject, put_of(subject, "a", n=1), absent)
    return f"{said}: {await item(subject, 'a')}"


@probe("the same token again does nothing", expected="done done n=1")
async def _(subject: Subject) -> str:
    token, count = str(uuid4()), update_of(subject, "a", "ADD n :one", one=1)
    said = [await transact(subject, count, token=token) for _ in range(2)]
    return " ".join([*said, await item(subject)])


@probe(
    "another transaction with the same token",
    expected=("IdempotentParameterMismatchException"),
)
async def _(subject: Subject) -> str:
    token = str(uuid4())
    await transact(subject, update_of(subject, "a", "ADD n :n", n=1), token=token)
    return await transact(
        subject, update_of(subject, "a", "ADD n :n", n=2), token=token
    )


@probe(
    "a cancelled transaction may be sent again",
    expected=("ConditionalCheckFailed done n=1"),
)
async def _(subject: Subject) -> str:
    token = str(uuid4())
    count = update_of(subject, "a", "ADD n :one", "attribute_exists(pk)", one=1)
    said = [await transact(subject, count, token=token)]
    await put(subject)
    said.append(await transact(subject, count, token=token))
    return " ".join([*said, await item(subject)])


@probe("a transaction without a token is done again", expected="done done n=2")
async def _(subject: Subject) -> str:
    count = update_of(subject, "a", "ADD n :one", one=1)
    said = [await transact(subject, count) for _ in range(2)]
    return " ".join([*said, await item(subject)])


@probe("100 actions", expected="done")
async def _(subject: Subject) -> str:
    puts = [put_of(subject, f"{number}") for number in range(100)]
    return await transact(subject, *puts)


@probe("101 actions", expected=INVALID)
async def _(subject: Subject) -> str:
    puts = [put_of(subject, f"{number}") for number in range(101)]
    return await transact(subject, *puts)


@probe("one item twice in a transaction", expected=INVALID)
async def _(subject: Subject) -> str:
    check = {"TableName": subject.table, "Key": key("a")}
    return await transact(
        subject,
        {"ConditionCheck": check | expressed("", "attribute_not_exists(pk)")},
        put_of(subject, "a"),
    )


@probe("a wrong type in a transaction", expected="None | ValidationError")
async def _(subject: Subject) -> str:
    await put(subject, "b", n="text")
    return await transact(
        subject, put_of(subject, "a"), update_of(subject, "b", "ADD n :one", one=1)
    )


@probe("an idle value in a transaction", expected=INVALID)
async def _(subject: Subject) -> str:
    return await transact(
        subject, update_of(subject, "a", "SET n = :one", one=1, idle=2)
    )


@probe("the idle zeros of a number are trimmed in a transaction", expected="1.5")
async def _(subject: Subject) -> str:
    await transact(subject, update_of(subject, "a", "SET n = :n", n={"N": "01.50"}))
    reply = await subject.dynamodb.get_item(
        TableName=subject.table, Key=key("a"), ConsistentRead=True
    )
    return str(reply["Item"]["n"]["N"])
