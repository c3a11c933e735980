"""The rules of billed units against what the embedded AWS reports of its writes."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.aws.endpoint import Emulator
from piecework.cost.units import item_size, write_units
from piecework_orchestrator.embedded.deploy import make_client

KB = 1024
SIZES = [100, KB, KB + 1, 4 * KB, 5 * KB, 64 * KB, 300 * KB]


def item_of(size: int) -> dict[str, Any]:
    """Return an item of so many bytes."""
    item = {"pk": {"S": "T#default#J#j"}, "sk": {"S": "SIZE"}, "v": {"S": ""}}
    item["v"]["S"] = "x" * (size - item_size(item))
    assert size == item_size(item)
    return item


@pytest.mark.parametrize("size", SIZES)
def test_the_embedded_aws_bills_writes_by_the_rules(
    deployed: Emulator, environment_name: str, size: int
) -> None:
    table = f"piecework-{environment_name}-checkpoints"
    wanted: Any = {"TableName": table, "ReturnConsumedCapacity": "TOTAL"}
    item = item_of(size)
    key = {"pk": item["pk"], "sk": item["sk"]}
    small = {
        "Key": key,
        "UpdateExpression": "SET note = :n",
        "ExpressionAttributeValues": {":n": {"S": "a few bytes more"}},
    }
    after = item | {"note": {"S": "a few bytes more"}}
    client = make_client("dynamodb", deployed)
    told = [client.put_item(Item=item, **wanted), client.update_item(**small, **wanted)]
    transact = client.transact_write_items(
        TransactItems=[{"Update": {**small, "TableName": table}}],
        ReturnConsumedCapacity="TOTAL",
    )
    told.append(client.delete_item(Key=key, **wanted))
    client.close()

    [both] = transact["ConsumedCapacity"]
    whole = write_units(item_size(after))
    units = [answer["ConsumedCapacity"]["CapacityUnits"] for answer in told]
    assert [write_units(size), whole, whole] == units
    assert 2 * whole == both["CapacityUnits"]
