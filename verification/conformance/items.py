"""Items of a probe: written, changed and read in a line, shown as a short text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from piecework.store.serialization import from_item, to_value
from verification.conformance.probe import probe
from verification.conformance.subject import Subject

PK = "partition"


def wire(value: Any) -> dict[str, Any]:
    """Return a value for the wire; a dictionary is one already."""
    return value if isinstance(value, dict) else to_value(value)


def expressed(
    update: str = "", condition: str = "", /, **values: Any
) -> dict[str, Any]:
    """Return the parameters of a write's expressions; `#name` stands for `name`."""
    request: dict[str, Any] = {}
    if update:
        request["UpdateExpression"] = update
    if condition:
        request["ConditionExpression"] = condition
    if marked := set(re.findall(r"#(\w+)", update + condition)):
        request["ExpressionAttributeNames"] = {f"#{name}": name for name in marked}
    if values:
        wired = {f":{name}": wire(value) for name, value in values.items()}
        request["ExpressionAttributeValues"] = wired
    return request


def key(sk: str = "a", pk: str = PK) -> dict[str, Any]:
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def row(sk: str = "a", pk: str = PK, **values: Any) -> dict[str, Any]:
    return key(sk, pk) | {name: wire(value) for name, value in values.items()}


async def put(subject: Subject, sk: str = "a", pk: str = PK, **values: Any) -> None:
    item = row(sk, pk, **values)
    await subject.dynamodb.put_item(TableName=subject.table, Item=item)


async def update(
    subject: Subject, text: str = "", condition: str = "", /, **values: Any
) -> str:
    """Update the item `a`; return it as it is then."""
    reply = await subject.dynamodb.update_item(
        TableName=subject.table,
        Key=key(),
        ReturnValues="ALL_NEW",
        **expressed(text, condition, **values),
    )
    return show(reply.get("Attributes"))


def update_probe(
    name: str,
    expected: str,
    text: str = "",
    condition: str = "",
    /,
    *,
    before: Mapping[str, Any] | None = None,
    **values: Any,
) -> None:
    """Register a probe that updates the item `a`, which is `before` or absent."""

    @probe(name, expected=expected, service="dynamodb")
    async def _(subject: Subject) -> str:
        if before is not None:
            await put(subject, **before)
        return await update(subject, text, condition, **values)


def condition_probe(
    name: str,
    expected: str,
    *conditions: str,
    before: Mapping[str, Any] | None = None,
    **values: Any,
) -> None:
    """Register a probe of conditions on the item `a`, which is `before` or absent."""

    @probe(name, expected=expected, service="dynamodb")
    async def _(subject: Subject) -> str:
        if before is not None:
            await put(subject, **before)
        return await all_hold(subject, *conditions, **values)


async def holds(subject: Subject, condition: str, /, **values: Any) -> str:
    """Return whether a condition on the item `a` holds, without changing it."""
    try:
        await subject.dynamodb.transact_write_items(
            TransactItems=[
                {
                    "ConditionCheck": {
                        "TableName": subject.table,
                        "Key": key(),
                        **expressed("", condition, **values),
                    }
                }
            ]
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "TransactionCanceledException":
            raise
        return "no"
    return "yes"


async def all_hold(subject: Subject, *conditions: str, **values: Any) -> str:
    """Return for each condition on the item `a` whether it holds."""
    return " ".join(
        [
            await holds(
                subject,
                condition,
                **{n: v for n, v in values.items() if re.search(rf":{n}\b", condition)},
            )
            for condition in conditions
        ]
    )


async def item(subject: Subject, sk: str = "a", pk: str = PK) -> str:
    reply = await subject.dynamodb.get_item(
        TableName=subject.table, Key=key(sk, pk), ConsistentRead=True
    )
    return show(reply.get("Item"))


def show(found: Mapping[str, Any] | None) -> str:
    """Return an item without its key, as a short text."""
    if found is None:
        return "nothing"
    values = {n: v for n, v in from_item(found).items() if n not in {"pk", "sk"}}
    return " ".join(f"{name}={text(values[name])}" for name in sorted(values)) or "bare"


def text(value: Any) -> str:
    """Return a value as text; sets are sorted, because their order is undefined."""
    if isinstance(value, set):
        return "{" + ",".join(map(str, sorted(value))) + "}"
    return str(value)


def shown_item(error: ClientError) -> str:
    """Return the item in a refusal."""
    found: Any = error.response.get("Item")
    return show(found)
