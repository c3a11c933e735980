"""Every write that piecework sends, on the model and on a server, item by item.

The server gets each from the thin client, as from a worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ClientError

from piecework.aws.transport.client import thin_client
from piecework_simulation.aws.dynamodb import DynamoDB
from tests.store.test_sources import STORE, texts
from verification.conformance.dynamodb_machine import said
from verification.conformance.items import key
from verification.conformance.models import NOW, Direct
from verification.conformance.piecework_writes import Recorded, items, recorded
from verification.conformance.subject import fresh
from verification.conformance.subjects import clients, make_table

OPERATIONS = {"Update": "update_item", "Put": "put_item"}
AT_ONCE = 12


@pytest.mark.parametrize("subject", ["ministack", "endpoint"])
def test_each_write_of_ours_ends_there_as_on_the_model(
    subject: str, endpoint_of: Callable[[str], str]
) -> None:
    assert [] == asyncio.run(compare(subject, endpoint_of(subject)))


async def compare(subject: str, endpoint: str) -> list[str]:
    """Return the writes that a server answers otherwise than the model."""
    table, turn = fresh("writes"), asyncio.Semaphore(AT_ONCE)
    model = Direct(DynamoDB(lambda: NOW, tables=[table]))
    async with clients(subject, endpoint) as (sdk, *_), AsyncExitStack() as stack:
        server = thin_client(sdk, stack)
        assert server is not sdk
        await make_table(server, table)

        async def differs(sk: str, write: Recorded, item: Any) -> str:
            async with turn:
                ours = await outcome(model, table, sk, write, item)
                theirs = await outcome(server, table, sk, write, item)
            return "" if ours == theirs else f"{write} on {item}: {theirs}, not {ours}"

        cases = [
            (write, item)
            for number, write in enumerate(recorded())
            for item in items(write, Random(number))
        ]
        found = await asyncio.gather(
            *(differs(f"{place}", *case) for place, case in enumerate(cases))
        )
        if subject == "endpoint":
            await server.delete_table(TableName=table)
    return [line for line in found if line]


async def outcome(client: Any, table: str, sk: str, write: Recorded, item: Any) -> Any:
    """Return the answer to a write, and the item after it."""
    place = {"TableName": table, "Key": key(sk)}
    if item is not None:
        await client.put_item(TableName=table, Item=item | key(sk))
    reply: Any
    try:
        reply = await sent(client, table, sk, write)
    except ClientError as error:
        reply = error
    after = await client.get_item(ConsistentRead=True, **place)
    return said(lambda: raised(reply)), said(lambda: after)


async def sent(client: Any, table: str, sk: str, write: Recorded) -> Any:
    request = {"TableName": table, **write.request()}
    if write.kind == "Put":
        return await client.put_item(**request, Item=key(sk) | {"new": {"S": "new"}})
    if write.kind == "Update":
        return await client.update_item(**request, Key=key(sk), ReturnValues="ALL_NEW")
    check = {write.kind: request | {"Key": key(sk)}}
    return await client.transact_write_items(TransactItems=[check])


def raised(reply: Any) -> Any:
    if isinstance(reply, ClientError):
        raise reply
    return reply


def test_every_expression_in_the_sources_is_recorded() -> None:
    """`verification/conformance/recorder.py` says how to renew the record."""
    sent = [f"{write.update} {write.condition}" for write in recorded()]
    missing = {
        (path.name, text)
        for path in STORE
        for text in texts(path)
        if path.name != "table.py" and not any(text.strip(" ,") in s for s in sent)
    }
    assert set() == missing


def test_every_recorded_condition_is_met_by_an_item_and_missed_by_another() -> None:
    found = asyncio.run(one_sided())
    assert [] == found


async def one_sided() -> list[Recorded]:
    """Return the writes that are refused on all items, or on none."""
    client = Direct(DynamoDB(lambda: NOW, tables=["t"]))
    found = []
    for number, write in enumerate(recorded()):
        ends = set()
        for place, item in enumerate(items(write, Random(number))):
            sk = f"{number}-{place}"
            reply, _ = await outcome(client, "t", sk, write, item)
            ends.add("error" in reply)
        if write.condition and ends != {True, False}:
            found.append(write)
    return found
