"""Probe what DynamoDB refuses, and its limits."""

from __future__ import annotations

from typing import Any

from verification.conformance.items import (
    condition_probe,
    expressed,
    item,
    key,
    put,
    row,
    update,
    update_probe,
)
from verification.conformance.probe import probe
from verification.conformance.subject import Subject

INVALID = "ValidationException"
LARGEST = 400 * 1024


#: Updates that are refused: name, item before, update, its values.
UPDATES: tuple[tuple[str, dict[str, Any] | None, str, dict[str, Any]], ...] = (
    ("a value that no expression uses", None, "SET n = :one", {"one": 1, "idle": 2}),
    ("a value that is not given", None, "SET n = :one, m = :two", {"one": 1}),
    ("a reserved word in an update, unmarked", None, "SET status = :s", {"s": "x"}),
    ("an attribute twice on the left", None, "SET n = :one REMOVE n", {"one": 1}),
    ("a section twice", None, "SET n = :one SET m = :one", {"one": 1}),
    ("an update of a key attribute", None, "SET sk = :other", {"other": "b"}),
    ("adding a text", None, "ADD n :text", {"text": "x"}),
    ("the sum of a text and a number", {"s": "10"}, "SET n = s + :one", {"one": 1}),
    (
        "the sum of an empty text and a number",
        {"s": ""},
        "SET n = s + :one",
        {"one": 1},
    ),
    ("an empty set", None, "ADD s :s", {"s": {"NS": []}}),
    ("a set with a member twice", None, "ADD s :s", {"s": {"NS": ["1", "1.0"]}}),
    ("39 digits", None, "SET n = :n", {"n": 10**38 + 1}),
    (
        *("an update to more than 400 KB", {"s": "x" * (LARGEST - 100)}),
        *("SET more = :more", {"more": "x" * 200}),
    ),
)
#: Conditions that are refused: name, condition, its values.
CONDITIONS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("brackets that do nothing", "((attribute_not_exists(pk)))", {}),
    ("an expression that ends too soon", "attribute_not_exists(pk) AND", {}),
    ("an attribute compared with itself", "n = n", {}),
    ("the order of a boolean", "b < :true", {"true": True}),
    ("the beginning of a number", "begins_with(n, :one)", {"one": 1}),
)
#: Requests that are refused: name, operation, its parameters but for the table.
REQUESTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        *("a name that no expression uses", "update_item"),
        {"Key": key(), "ExpressionAttributeNames": {"#idle": "idle"}}
        | expressed("SET n = :one", one=1),
    ),
    (
        *("a name that is not given", "update_item"),
        {"Key": key()}
        | expressed("SET #n = :one, m = :one", one=1)
        | {"ExpressionAttributeNames": {"#m": "m"}},
    ),
    ("values without an expression", "put_item", {"Item": row()} | expressed(one=1)),
    (
        *("an item of 400 KB and one byte", "put_item"),
        {"Item": row(s="x" * (LARGEST - len("pkpartitionska")))},
    ),
    ("an empty sort key", "put_item", {"Item": row("")}),
    ("a key of another type", "put_item", {"Item": row() | {"sk": {"N": "1"}}}),
    ("half a key", "get_item", {"Key": {"pk": {"S": "p"}}}),
    ("a sort key of more than 1024 bytes", "put_item", {"Item": row("é" * 513)}),
)

for name, before, text, values in UPDATES:
    update_probe(name, INVALID, text, before=before, **values)
for name, condition, values in CONDITIONS:
    condition_probe(name, INVALID, condition, **values)
for name, operation, request in REQUESTS:

    @probe(name, expected=INVALID)
    async def _(
        subject: Subject, operation: str = operation, request: Any = request
    ) -> str:
        await getattr(subject.dynamodb, operation)(TableName=subject.table, **request)
        return "done"


update_probe(
    *("a reserved word in a condition, unmarked", INVALID),
    *("SET n = :s", "status = :s"),
    s="x",
)
update_probe("an empty text is kept", "s=", "SET s = :s", s="")
update_probe(
    *("38 digits are exact", f"n=1{'0' * 36}1", "SET n = n + :one"),
    before={"n": 10**37},
    one=1,
)


async def digits(subject: Subject) -> str:
    """Return the number `n` of the item as it is written."""
    reply = await subject.dynamodb.get_item(
        TableName=subject.table, Key=key(), ConsistentRead=True
    )
    return str(reply["Item"]["n"]["N"])


@probe("the idle zeros of a number are trimmed in a put", expected="1.5 20 0.1")
async def _(subject: Subject) -> str:
    said = []
    for number in ("01.50", "2E1", ".1"):
        await put(subject, n={"N": number})
        said.append(await digits(subject))
    return " ".join(said)


@probe("the idle zeros of a number are trimmed in an update", expected="1.5 20 0.1")
async def _(subject: Subject) -> str:
    said = []
    for number in ("01.50", "2E1", ".1"):
        await update(subject, "SET n = :n", n={"N": number})
        said.append(await digits(subject))
    return " ".join(said)


@probe("an item of 400 KB", expected="kept")
async def _(subject: Subject) -> str:
    await put(subject, s="x" * (LARGEST - len("pkpartitionska") - len("s")))
    return "kept" if await item(subject) != "nothing" else "gone"


@probe("a table that is not there", expected="ResourceNotFoundException")
async def _(subject: Subject) -> str:
    await subject.dynamodb.get_item(TableName="nobodys", Key=key())
    return "read"
