"""Probe batches: each insertion is a write of its own, each read an own read."""

from __future__ import annotations

from typing import Any

from verification.conformance.items import item, key, put, row
from verification.conformance.probe import probe
from verification.conformance.subject import Subject


def insertion(subject: Subject, sk: str, /, **values: Any) -> dict[str, Any]:
    """Return the statement that creates an item."""
    new = row(sk, **values)
    names = ", ".join(f"'{name}': ?" for name in new)
    statement = f'INSERT INTO "{subject.table}" VALUE {{{names}}}'
    return {"Statement": statement, "Parameters": list(new.values())}


async def insert(subject: Subject, *statements: dict[str, Any]) -> str:
    """Send a batch; return the code of each error."""
    reply = await subject.dynamodb.batch_execute_statement(Statements=list(statements))
    codes = [
        answer.get("Error", {}).get("Code", "done") for answer in reply["Responses"]
    ]
    return " ".join(codes)


@probe("insertions create items", expected="done done: n=1 n=2")
async def _(subject: Subject) -> str:
    new = [insertion(subject, sk, n=n) for sk, n in (("a", 1), ("b", 2))]
    said = await insert(subject, *new)
    return f"{said}: {await item(subject, 'a')} {await item(subject, 'b')}"


@probe(
    "an insertion of an existing item fails alone",
    expected="DuplicateItem done: n=1 n=2",
)
async def _(subject: Subject) -> str:
    await put(subject, "a", n=1)
    new = [insertion(subject, sk, n=2) for sk in "ab"]
    said = await insert(subject, *new)
    return f"{said}: {await item(subject, 'a')} {await item(subject, 'b')}"


@probe(
    "an insertion with too few values fails alone",
    expected="ValidationError done: nothing n=1",
)
async def _(subject: Subject) -> str:
    short = insertion(subject, "a", n=1)
    short["Parameters"].pop()
    said = await insert(subject, short, insertion(subject, "b", n=1))
    return f"{said}: {await item(subject, 'a')} {await item(subject, 'b')}"


@probe("26 statements in a batch", expected="ValidationException")
async def _(subject: Subject) -> str:
    return await insert(subject, *(insertion(subject, f"{n}") for n in range(26)))


async def get_many(subject: Subject, *sks: str) -> str:
    """Read items in a batch; return their `n`, in order."""
    asked = {"Keys": [key(sk) for sk in sks], "ConsistentRead": True}
    reply = await subject.dynamodb.batch_get_item(RequestItems={subject.table: asked})
    assert not reply["UnprocessedKeys"]
    items = reply["Responses"].get(subject.table, [])
    return " ".join(sorted(found["n"]["N"] for found in items))


@probe("a batch of reads has the items that exist", expected="1 2")
async def _(subject: Subject) -> str:
    await put(subject, "a", n=1)
    await put(subject, "b", n=2)
    return await get_many(subject, "b", "none", "a")


@probe("a batch of reads of nothing that exists", expected="")
async def _(subject: Subject) -> str:
    return await get_many(subject, "none")


@probe("101 keys in a batch of reads", expected="ValidationException")
async def _(subject: Subject) -> str:
    return await get_many(subject, *(f"{n}" for n in range(101)))


@probe("a key twice in a batch of reads", expected="ValidationException")
async def _(subject: Subject) -> str:
    return await get_many(subject, "a", "a")
