"""What DynamoDB does with one item: updates, conditions, what comes back.

The answers are those of the developer guide and the API reference.
"""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from verification.conformance.items import (
    expressed,
    item,
    key,
    put,
    row,
    show,
    shown_item,
    update,
    update_probe,
)
from verification.conformance.probe import probe
from verification.conformance.subject import Subject

INVALID = "ValidationException"
REFUSED = "ConditionalCheckFailedException"
ALL_OLD = "ALL_OLD"


# Updates.

COUNT = "SET n = if_not_exists(n, :zero) + :one"

update_probe("an update of an absent item creates it", "n=1", "SET n = :n", n=1)
update_probe("an update without an expression creates a bare item", "bare")
update_probe(
    *("right-hand sides see the item as it was", "a=2 b=1", "SET a = b, b = a"),
    before={"a": 1, "b": 2},
)
update_probe("ADD begins at zero, also below it", "n=-3", "ADD n :n", n=-3)
update_probe("- takes away", "n=4", "SET n = n - :three", before={"n": 7}, three=3)
update_probe(
    *("list_append puts one list behind the other", "l=[1, 2]"),
    "SET l = list_append(l, :more)",
    before={"l": [1]},
    more=[2],
)
update_probe(
    *("a set without members is no attribute", "bare", "DELETE s :s"),
    before={"s": {1}},
    s={"NS": ["1", "2"]},
)
update_probe(
    *("all four sections in one expression", "a=1 n=1 s={2}"),
    "SET a = :one ADD n :one REMOVE gone DELETE s :s",
    before={"gone": 1, "s": {1, 2}},
    one=1,
    s={"NS": ["1"]},
)
update_probe(
    *("adding a number to a text", INVALID, "ADD n :one"), before={"n": "text"}, one=1
)
update_probe(
    *("setting what is computed from an absent attribute", INVALID),
    "SET n = m + :one",
    before={},
    one=1,
)


@probe("a REMOVE alone creates nothing", expected="nothing, nothing")
async def _(subject: Subject) -> str:
    return f"{await update(subject, 'REMOVE n')}, {await item(subject)}"


@probe("a DELETE from a set alone creates nothing", expected="nothing, nothing")
async def _(subject: Subject) -> str:
    said = await update(subject, "DELETE done :d", d={"NS": ["1"]})
    return f"{said}, {await item(subject)}"


@probe("if_not_exists begins a counter that + goes on with", expected="n=2")
async def _(subject: Subject) -> str:
    await update(subject, COUNT, zero=0, one=1)
    return await update(subject, COUNT, zero=0, one=1)


@probe("adding to a set twice is adding once", expected="s={1,2}")
async def _(subject: Subject) -> str:
    for _time in range(2):
        said = await update(subject, "ADD s :s", s={"NS": ["2", "1"]})
    return said


# What comes back.


@probe(
    "the five kinds of ReturnValues",
    expected="NONE=nothing ALL_OLD=a=1 b=1 ALL_NEW=a=1 b=2 c=1"
    " UPDATED_OLD=b=1 UPDATED_NEW=b=2 c=1",
)
async def _(subject: Subject) -> str:
    said = []
    for kind in ("NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"):
        await put(subject, a=1, b=1)
        reply = await subject.dynamodb.update_item(
            TableName=subject.table,
            Key=key(),
            ReturnValues=kind,
            **expressed("SET b = :two, c = :one", one=1, two=2),
        )
        said.append(f"{kind}={show(reply.get('Attributes'))}")
    return " ".join(said)


@probe("UPDATED_NEW of an absent item", expected="s={1}")
async def _(subject: Subject) -> str:
    reply = await subject.dynamodb.update_item(
        TableName=subject.table,
        Key=key(),
        ReturnValues="UPDATED_NEW",
        **expressed("ADD s :s", s={"NS": ["1"]}),
    )
    return show(reply.get("Attributes"))


@probe("a put returns what it replaced", expected="nothing, n=1")
async def _(subject: Subject) -> str:
    replies = [
        await subject.dynamodb.put_item(
            TableName=subject.table, Item=row(n=n), ReturnValues=ALL_OLD
        )
        for n in (1, 2)
    ]
    return ", ".join(show(reply.get("Attributes")) for reply in replies)


@probe("a put cannot return what it put", expected=INVALID)
async def _(subject: Subject) -> str:
    await subject.dynamodb.put_item(
        TableName=subject.table, Item=row(), ReturnValues="ALL_NEW"
    )
    return "done"


@probe("a delete is quiet about an absent item", expected="nothing, n=1, nothing")
async def _(subject: Subject) -> str:
    said = []
    for _time in range(2):
        reply = await subject.dynamodb.delete_item(
            TableName=subject.table, Key=key(), ReturnValues=ALL_OLD
        )
        said.append(show(reply.get("Attributes")))
        await put(subject, n=1)
    await subject.dynamodb.delete_item(TableName=subject.table, Key=key())
    return ", ".join([*said, await item(subject)])


async def told(subject: Subject, operation: str, **request: Any) -> str:
    """Return the item that a refusal tells, for a write that is refused."""
    try:
        await getattr(subject.dynamodb, operation)(
            TableName=subject.table,
            ReturnValuesOnConditionCheckFailure=ALL_OLD,
            **request,
        )
    except ClientError as error:
        return f"{error.response['Error']['Code']} {shown_item(error)}"
    return "done"


for name, operation, parts in (
    ("update", "update_item", {"Key": key()} | expressed("SET n = :t", "n = :t", t=2)),
    ("put", "put_item", {"Item": row(n=2)} | expressed("", "attribute_not_exists(pk)")),
    ("delete", "delete_item", {"Key": key()} | expressed("", "n = :two", two=2)),
):

    @probe(f"a refused {name} tells the item", expected=f"{REFUSED} n=1")
    async def _(
        subject: Subject, operation: str = operation, parts: Any = parts
    ) -> str:
        await put(subject, n=1)
        return await told(subject, operation, **parts)


@probe("a refusal of an absent item returns nothing", expected=f"{REFUSED} nothing")
async def _(subject: Subject) -> str:
    change = expressed("SET n = :one", "attribute_exists(pk)", one=1)
    return await told(subject, "update_item", Key=key(), **change)


@probe("a refusal returns the item only if asked", expected="nothing")
async def _(subject: Subject) -> str:
    await put(subject, n=1)
    try:
        await update(subject, "SET n = :two", "n = :two", two=2)
    except ClientError as error:
        return shown_item(error)
    return "done"
