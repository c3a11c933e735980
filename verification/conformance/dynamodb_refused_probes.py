"""Probe what DynamoDB refuses, and its limits."""

from __future__ import annotations

from verification.conformance.items import expressed, holds, item, key, put, row, update
from verification.conformance.probe import probe
from verification.conformance.subject import Subject

INVALID = "ValidationException"
LARGEST = 400 * 1024


@probe("a value that no expression uses", expected=INVALID)
async def _(subject: Subject) -> str:
    return await update(subject, "SET n = :one", one=1, idle=2)


@probe("a value that is not given", expected=INVALID)
async def _(subject: Subject) -> str:
    return await update(subject, "SET n = :one, m = :two", one=1)


@probe("a name that no expression uses", expected=INVALID)
async def _(subject: Subject) -> str:
    request = expressed("SET n = :one", one=1)
    names = {"#idle": "idle"}
    await subject.dynamodb.update_item(
        TableName=subject.table, Key=key(), ExpressionAttributeNames=names, **request
    )
    return "done"


@probe("a name that is not given", expected=INVALID)
async def _(subject: Subject) -> str:
    request = expressed("SET #n = :one, m = :one", one=1)
    request["ExpressionAttributeNames"] = {"#m": "m"}
    await subject.dynamodb.update_item(TableName=subject.table, Key=key(), **request)
    return "done"


@probe("values without an expression", expected=INVALID)
async def _(subject: Subject) -> str:
    await subject.dynamodb.put_item(
        TableName=subject.table, Item=row(), **expressed(one=1)
    )
    return "done"


@probe("a reserved word in an update, unmarked", expected=INVALID)
async def _(subject: Subject) -> str:
    return await update(subject, "SET status = :s", s="x")


@probe("a reserved word in a condition, unmarked", expected=INVALID)
async def _(subject: Subject) -> str:
    return await update(subject, "SET n = :s", "status = :s", s="x")


@probe("an attribute twice on the left", expected=INVALID)
async def _(subject: Subject) -> str:
    return await update(subject, "SET n = :one REMOVE n", one=1)


@probe("a section twice", expected=INVALID)
async def _(subject: Subject) -> str:
    return await update(subject, "SET n = :one SET m = :one", one=1)


@probe("an update of a key attribute", expected=INVALID)
async def _(subject: Subject) -> str:
    return await update(subject, "SET sk = :other", other="b")


@probe("adding a text", expected=INVALID)
async def _(subject: Subject) -> str:
    return await update(subject, "ADD n :text", text="x")


@probe("the sum of a text and a number", expected=INVALID)
async def _(subject: Subject) -> str:
    await put(subject, s="10")
    return await update(subject, "SET n = s + :one", one=1)


@probe("the sum of an empty text and a number", expected=INVALID)
async def _(subject: Subject) -> str:
    await put(subject, s="")
    return await update(subject, "SET n = s + :one", one=1)


@probe("brackets that do nothing", expected=INVALID)
async def _(subject: Subject) -> str:
    return await holds(subject, "((attribute_not_exists(pk)))")


@probe("an expression that ends too soon", expected=INVALID)
async def _(subject: Subject) -> str:
    return await holds(subject, "attribute_not_exists(pk) AND")


@probe("an attribute compared with itself", expected=INVALID)
async def _(subject: Subject) -> str:
    return await holds(subject, "n = n")


@probe("the order of a boolean", expected=INVALID)
async def _(subject: Subject) -> str:
    return await holds(subject, "b < :true", true=True)


@probe("the beginning of a number", expected=INVALID)
async def _(subject: Subject) -> str:
    return await holds(subject, "begins_with(n, :one)", one=1)


@probe("an empty set", expected=INVALID)
async def _(subject: Subject) -> str:
    return await update(subject, "ADD s :s", s={"NS": []})


@probe("a set with a member twice", expected=INVALID)
async def _(subject: Subject) -> str:
    return await update(subject, "ADD s :s", s={"NS": ["1", "1.0"]})


@probe("an empty text is kept", expected="s=")
async def _(subject: Subject) -> str:
    return await update(subject, "SET s = :s", s="")


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


@probe("38 digits are exact", expected=f"n=1{'0' * 36}1")
async def _(subject: Subject) -> str:
    await put(subject, n=10**37)
    return await update(subject, "SET n = n + :one", one=1)


@probe("39 digits", expected=INVALID)
async def _(subject: Subject) -> str:
    return await update(subject, "SET n = :n", n=10**38 + 1)


@probe("an item of 400 KB", expected="kept")
async def _(subject: Subject) -> str:
    await put(subject, s="x" * (LARGEST - len("pkpartitionska") - len("s")))
    return "kept" if await item(subject) != "nothing" else "gone"


@probe("an item of 400 KB and one byte", expected=INVALID)
async def _(subject: Subject) -> str:
    await put(subject, s="x" * (LARGEST - len("pkpartitionska")))
    return "kept"


@probe("an update to more than 400 KB", expected=INVALID)
async def _(subject: Subject) -> str:
    await put(subject, s="x" * (LARGEST - 100))
    return await update(subject, "SET more = :more", more="x" * 200)


@probe("an empty sort key", expected=INVALID)
async def _(subject: Subject) -> str:
    await put(subject, "")
    return "kept"


@probe("a key of another type", expected=INVALID)
async def _(subject: Subject) -> str:
    await subject.dynamodb.put_item(
        TableName=subject.table, Item=row() | {"sk": {"N": "1"}}
    )
    return "kept"


@probe("half a key", expected=INVALID)
async def _(subject: Subject) -> str:
    await subject.dynamodb.get_item(TableName=subject.table, Key={"pk": {"S": "p"}})
    return "read"


@probe("a sort key of more than 1024 bytes", expected=INVALID)
async def _(subject: Subject) -> str:
    await put(subject, "é" * 513)
    return "kept"


@probe("a table that is not there", expected="ResourceNotFoundException")
async def _(subject: Subject) -> str:
    await subject.dynamodb.get_item(TableName="nobodys", Key=key())
    return "read"
