"""The rules of billed units against what the embedded AWS reports of its writes."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.cost.units import item_size, write_units
from tests.store.conftest import SETTINGS, Store

KB = 1024
SIZES = [100, KB, KB + 1, 4 * KB, 5 * KB, 64 * KB, 300 * KB]
WANTED = {"TableName": SETTINGS.checkpoints_table, "ReturnConsumedCapacity": "TOTAL"}


def item_of(store: Store, size: int) -> dict[str, Any]:
    """Return an item of so many bytes, of the test's own job."""
    item = {"pk": {"S": store.ref.pk}, "sk": {"S": "SIZE"}, "v": {"S": ""}}
    item["v"]["S"] = "x" * (size - item_size(item))
    assert size == item_size(item)
    return item


@pytest.mark.parametrize("size", SIZES)
async def test_the_embedded_aws_bills_writes_by_the_rules(
    store: Store, size: int
) -> None:
    item = item_of(store, size)
    key = {"pk": item["pk"], "sk": item["sk"]}
    small = {
        "Key": key,
        "UpdateExpression": "SET note = :n",
        "ExpressionAttributeValues": {":n": {"S": "a few bytes more"}},
    }
    after = item | {"note": {"S": "a few bytes more"}}
    put = await store.client.put_item(Item=item, **WANTED)
    update = await store.client.update_item(**small, **WANTED)
    action = {"Update": {**small, "TableName": WANTED["TableName"]}}
    transact = await store.client.transact_write_items(
        TransactItems=[action], ReturnConsumedCapacity="TOTAL"
    )
    delete = await store.client.delete_item(Key=key, **WANTED)

    told = [put, update, delete]
    units = [answer["ConsumedCapacity"]["CapacityUnits"] for answer in told]
    [both] = transact["ConsumedCapacity"]
    whole = write_units(item_size(after))
    assert [write_units(size), whole, whole] == units
    assert 2 * whole == both["CapacityUnits"]
