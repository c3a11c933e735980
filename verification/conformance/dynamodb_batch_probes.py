"""Probe batches of insertions: each statement is a write of its own."""

from __future__ import annotations

from typing import Any

from verification.conformance.items import item, put, row
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
