"""What a request to DynamoDB consumed: as AWS reports it, else by its rules.

AWS reports it with each answer, and that counts. Emulators report wrongly, so that of
theirs only what exceeds the rules' is believed: an update answers without its item, and
how large that is nobody but the table knows. A refusal is never reported, even by AWS;
it is billed by the item that stands there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from piecework.metering.units import TRANSACTION, item_size, read_units, write_units

READS = frozenset({"GetItem", "Query", "Scan"})
WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem"})
TRANSACT = "TransactWriteItems"
#: Refusals that are billed as the write would have been.
BILLED_REFUSALS = frozenset(
    {
        "ConditionalCheckFailedException",
        "TransactionCanceledException",
        "TransactionConflictException",
    }
)
#: About what a chunk's item has when it is counted without being read: the only items
#: that are. Only where nobody reports it.
COUNTED_BYTES = 400


def consumed(
    operation: str,
    params: Mapping[str, Any],
    answer: Mapping[str, Any],
    *,
    trusted: bool,
) -> float:
    """Return the read or write units that an answered request consumed."""
    code = answer.get("Error", {}).get("Code", "")
    if code and code not in BILLED_REFUSALS:
        return 0
    told = reported(answer.get("ConsumedCapacity"))
    if trusted and told and not code:
        return told
    if operation in READS:
        return read_by_rule(operation, params, answer)
    if operation == TRANSACT:
        return max(told, transacted_by_rule(params, answer))
    if operation in WRITES:
        return max(told, written_by_rule(params, answer))
    return told


def reported(told: Any) -> float:
    """Return what an answer says that was consumed, of all tables together."""
    if not told:
        return 0
    if isinstance(told, list):
        return float(sum(map(reported, told)))
    return float(told.get("CapacityUnits", 0))


def read_by_rule(
    operation: str, params: Mapping[str, Any], answer: Mapping[str, Any]
) -> float:
    """Return the units of a read, from the sizes of the items that it read."""
    if operation == "GetItem":
        size = item_size(answer.get("Item", {}))
    elif params.get("Select") == "COUNT":
        size = answer.get("ScannedCount", 0) * COUNTED_BYTES
    else:
        size = sum(map(item_size, answer.get("Items", [])))
    units = read_units(size)
    return units if params.get("ConsistentRead") else math.ceil(units / 2)


def written_by_rule(params: Mapping[str, Any], answer: Mapping[str, Any]) -> int:
    """Return the units of a write, from the largest size of its item that is known."""
    whole = params.get("ReturnValues", "").startswith("ALL")
    size = item_size(params["Item"]) if "Item" in params else 0
    if "Item" in answer:  # what a refused one met
        size = max(size, item_size(answer["Item"]))
    if whole and "Attributes" in answer:
        size = max(size, item_size(answer["Attributes"]))
    return write_units(size)


def transacted_by_rule(params: Mapping[str, Any], answer: Mapping[str, Any]) -> int:
    """Return the units of a transaction: each element twice, a mere check too."""
    actions = [next(iter(each.values())) for each in params["TransactItems"]]
    reasons = answer.get("CancellationReasons") or [{}] * len(actions)
    units = (
        max(written_by_rule(action, {}), write_units(item_size(reason.get("Item", {}))))
        for action, reason in zip(actions, reasons, strict=False)
    )
    return TRANSACTION * sum(units)
