"""Probe DynamoDB reads: one item, a partition in order, page by page."""

from __future__ import annotations

from typing import Any

from verification.conformance.items import PK, item, key, put, wire
from verification.conformance.probe import probe
from verification.conformance.subject import Subject

INVALID = "ValidationException"
NAMES = ("a#1", "a#2", "a#10", "b#1", "Z", "é")


async def fill(subject: Subject, names: tuple[str, ...] = NAMES) -> None:
    for name in names:
        await put(subject, name)


async def query(
    subject: Subject, condition: str = "pk = :pk", *, more: Any = None, **values: Any
) -> Any:
    wired = {f":{name}": wire(v) for name, v in ({"pk": PK} | values).items()}
    return await subject.dynamodb.query(
        TableName=subject.table,
        KeyConditionExpression=condition,
        ExpressionAttributeValues=wired,
        ConsistentRead=True,
        **(more or {}),
    )


def keys_of(page: Any) -> str:
    return " ".join(found["sk"]["S"] for found in page["Items"])


def next_of(page: Any) -> str:
    last = page.get("LastEvaluatedKey")
    return last["sk"]["S"] if last else "end"


@probe("an absent item", expected="nothing")
async def _(subject: Subject) -> str:
    return await item(subject)


@probe(
    "a partition is in the order of its sort keys' bytes",
    expected=("Z a#1 a#10 a#2 b#1 é"),
)
async def _(subject: Subject) -> str:
    await fill(subject)
    await put(subject, "a#1", "other partition")
    return keys_of(await query(subject))


@probe("the keys that begin so", expected="a#1 a#10 a#2")
async def _(subject: Subject) -> str:
    await fill(subject)
    condition = "pk = :pk AND begins_with(sk, :prefix)"
    return keys_of(await query(subject, condition, prefix="a#"))


@probe("the keys between two, both of them in", expected="a#1 a#10 a#2")
async def _(subject: Subject) -> str:
    await fill(subject)
    condition = "pk = :pk AND sk BETWEEN :low AND :high"
    return keys_of(await query(subject, condition, low="a#1", high="a#2"))


@probe("the keys compared with one", expected="Z | Z a#1 | a#1 | b#1 é | a#2 b#1 é")
async def _(subject: Subject) -> str:
    await fill(subject)
    signs = {"<": "a#1", "<=": "a#1", "=": "a#1", ">": "a#2", ">=": "a#2"}
    pages = [
        await query(subject, f"pk = :pk AND sk {sign} :sk", sk=sk)
        for sign, sk in signs.items()
    ]
    return " | ".join(map(keys_of, pages))


@probe("a partition backwards", expected="é b#1 a#2 a#10 a#1 Z")
async def _(subject: Subject) -> str:
    await fill(subject)
    return keys_of(await query(subject, more={"ScanIndexForward": False}))


#: Whether a full last page returns a start key is unspecified.
@probe(
    "pages of two",
    expected=(
        "Z a#1 (a#1) | a#10 a#2 (a#2) | b#1 é (é) |  (end)",
        "Z a#1 (a#1) | a#10 a#2 (a#2) | b#1 é (end)",
    ),
)
async def _(subject: Subject) -> str:
    await fill(subject)
    return await pages(subject, {"Limit": 2})


@probe("pages of two, backwards", expected="c b (b) | a (end)")
async def _(subject: Subject) -> str:
    await fill(subject, ("a", "b", "c"))
    return await pages(subject, {"Limit": 2, "ScanIndexForward": False})


async def pages(subject: Subject, more: dict[str, Any]) -> str:
    """Return all pages of a partition, each with where the next one begins."""
    said: list[str] = []
    while True:
        page = await query(subject, more=more)
        said.append(f"{keys_of(page)} ({next_of(page)})")
        if "LastEvaluatedKey" not in page:
            return " | ".join(said)
        more = more | {"ExclusiveStartKey": page["LastEvaluatedKey"]}


@probe("a page that begins behind an absent key", expected="b#1 é")
async def _(subject: Subject) -> str:
    await fill(subject)
    begin = {"ExclusiveStartKey": key("a#9")}
    return keys_of(await query(subject, more=begin))


@probe("a page that begins in another partition", expected=INVALID)
async def _(subject: Subject) -> str:
    await fill(subject)
    begin = {"ExclusiveStartKey": key("a", "another")}
    return keys_of(await query(subject, more=begin))


@probe("a count has no items", expected="3, no items")
async def _(subject: Subject) -> str:
    await fill(subject)
    condition = "pk = :pk AND begins_with(sk, :prefix)"
    more = {"Select": "COUNT"}
    page = await query(subject, condition, more=more, prefix="a#")
    return f"{page['Count']}, {'items' if page.get('Items') else 'no items'}"


@probe("a page ends at one megabyte", expected=("3 more, 1 end", "2 more, 2 end"))
async def _(subject: Subject) -> str:
    for sk in "abcd":
        await put(subject, sk, s="x" * 390_000)
    said, more = [], dict[str, Any]()
    while True:
        page = await query(subject, more=more)
        last = page.get("LastEvaluatedKey")
        said.append(f"{page['Count']} {'more' if last else 'end'}")
        if not last:
            return ", ".join(said)
        more = {"ExclusiveStartKey": last}


@probe("an empty partition", expected=" (end)")
async def _(subject: Subject) -> str:
    return await pages(subject, {})


@probe("a query without the partition key", expected=INVALID)
async def _(subject: Subject) -> str:
    await subject.dynamodb.query(
        TableName=subject.table,
        KeyConditionExpression="sk = :sk",
        ExpressionAttributeValues={":sk": {"S": "a"}},
    )
    return "read"


@probe("a scan finds all, page by page", expected="p#1 p#1 p#2 p#2 p#3 p#3")
async def _(subject: Subject) -> str:
    for pk in ("p#1", "p#2", "p#3"):
        await put(subject, "a", pk)
        await put(subject, "b", pk)
    found, more = list[str](), {"Limit": 2}
    while True:
        page = await subject.dynamodb.scan(
            TableName=subject.table, ConsistentRead=True, **more
        )
        found += [row["pk"]["S"] for row in page["Items"]]
        if "LastEvaluatedKey" not in page:
            return " ".join(sorted(found))
        more = {"Limit": 2, "ExclusiveStartKey": page["LastEvaluatedKey"]}
