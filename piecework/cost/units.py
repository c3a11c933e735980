"""AWS's published rules for what a request is billed as; no I/O, no product.

DynamoDB: a write unit is 1 KB of an item, a consistent read unit 4 KB, each rounded
up. SQS: a request is 64 KB of payload. Sizes are those of the wire format.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

WRITE_BYTES = 1024
READ_BYTES = 4096
SQS_BYTES = 64 * 1024
#: The units of an element of a transaction, for each unit of the same write alone.
TRANSACTION = 2
#: Digits of a number that share a byte, and the byte beside them.
DIGITS = 2
#: Bytes of a list or a map, and of each of its elements.
NEST, ELEMENT = 3, 1


def write_units(size: int) -> int:
    """Return the units of a write; `size`: the larger one, before or after it."""
    return max(1, -(-size // WRITE_BYTES))


def read_units(size: int) -> int:
    """Return the units of a consistent read; `size`: for a query, of all its items."""
    return max(1, -(-size // READ_BYTES))


def sqs_requests(size: int) -> int:
    """Return how many requests a payload of so many bytes is billed as."""
    return max(1, -(-size // SQS_BYTES))


def item_size(item: Mapping[str, Mapping[str, Any]]) -> int:
    """Return the bytes of an item: its names, its values, its nesting."""
    # Names and texts are most of it, so they are measured all at once.
    texts = [value["S"] for value in item.values() if "S" in value]
    size = text_size("".join(item)) + text_size("".join(texts))
    if len(texts) < len(item):
        size += sum([value_size(v) for v in item.values() if "S" not in v])
    return size


def value_size(value: Mapping[str, Any]) -> int:  # noqa: PLR0911 -- one return for each type
    """Return the bytes of one attribute's value."""
    ((kind, content),) = value.items()
    match kind:
        case "S":
            return text_size(content)
        case "N":
            return number_size(content)
        case "SS":
            return sum(map(text_size, content))
        case "NS":
            return sum(map(number_size, content))
        case "B":
            return len(content)
        case "BS":
            return sum(map(len, content))
        case "M":
            return NEST + len(content) * ELEMENT + item_size(content)
        case "L":
            return NEST + sum(ELEMENT + value_size(each) for each in content)
        case _:  # BOOL and NULL
            return 1


def text_size(text: str) -> int:
    """Return the bytes of a text; ASCII, as nearly all of ours is, needs no copy."""
    return len(text) if text.isascii() else len(text.encode())


@lru_cache(maxsize=4096)
def number_size(number: str) -> int:
    """Return the bytes of a number: one for two significant digits, and one."""
    digits = number.lstrip("-").replace(".", "").strip("0")
    return -(-len(digits) // DIGITS) + 1


# ── what a request to DynamoDB consumed ───────────────────────────────────────
#
# AWS reports the capacity with each answer, and that counts. Emulators misreport. The
# figure by the rules may be too low, too. The answer to an update lacks the item, and
# only the table knows its size. So the larger of both counts. AWS does not report the
# capacity of a refusal, which is billed by the size of the existing item.

READS = frozenset({"GetItem", "BatchGetItem", "Query", "Scan"})
WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem"})
#: Refusals that are billed as the write would have been.
BILLED_REFUSALS = frozenset(
    {
        "ConditionalCheckFailedException",
        "TransactionCanceledException",
        "TransactionConflictException",
    }
)
#: The assumed bytes of a chunk's item that a query counts without reading it. Used only
#: if the capacity is not reported.
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
    rule = RULES.get(operation)
    return told if rule is None else max(told, rule(params, answer))


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
    if operation == "BatchGetItem":
        return got_by_rule(params, answer)
    if operation == "GetItem":
        size = item_size(answer.get("Item", {}))
    elif params.get("Select") == "COUNT":
        size = answer.get("ScannedCount", 0) * COUNTED_BYTES
    else:
        size = sum(map(item_size, answer.get("Items", [])))
    units = read_units(size)
    return units if params.get("ConsistentRead") else math.ceil(units / 2)


def got_by_rule(params: Mapping[str, Any], answer: Mapping[str, Any]) -> float:
    """Return the units of a batch of reads: each item is a read of its own.

    An item that does not exist takes the least.
    """
    total, left = 0.0, answer.get("UnprocessedKeys", {})
    for table, asked in params["RequestItems"].items():
        items = answer.get("Responses", {}).get(table, [])
        read = len(asked["Keys"]) - len(left.get(table, {}).get("Keys", []))
        units = sum(map(read_units, map(item_size, items))) + read - len(items)
        total += units if asked.get("ConsistentRead") else units / 2
    return total


def written_by_rule(params: Mapping[str, Any], answer: Mapping[str, Any]) -> int:
    """Return the units of a write, from the largest size of its item that is known."""
    whole = params.get("ReturnValues", "").startswith("ALL")
    size = item_size(params["Item"]) if "Item" in params else 0
    if "Item" in answer:  # the existing item, which refused the write
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


def inserted_by_rule(params: Mapping[str, Any], _: Mapping[str, Any]) -> int:
    """Return the units of a batch of insertions; one that is refused costs the same."""
    return sum(map(write_units, map(inserted_size, params["Statements"])))


def inserted_size(statement: Mapping[str, Any]) -> int:
    """Return the bytes of the item that a statement creates."""
    names = names_of_statement(statement["Statement"])
    return item_size(dict(zip(names, statement["Parameters"], strict=True)))


def removed_by_rule(params: Mapping[str, Any], answer: Mapping[str, Any]) -> int:
    """Return the least units of a batch of deletions: nothing tells the sizes."""
    left = answer.get("UnprocessedItems", {})
    return sum(map(len, params["RequestItems"].values())) - sum(map(len, left.values()))


@lru_cache(maxsize=256)
def names_of_statement(statement: str) -> tuple[str, ...]:
    """Return the names of the attributes of an insertion, in order."""
    return tuple(re.findall(r"'(\w+)': \?", statement))


#: How the units of each write follow from the request and its answer.
RULES: Final[Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], int]]] = {
    **dict.fromkeys(WRITES, written_by_rule),
    "TransactWriteItems": transacted_by_rule,
    "BatchExecuteStatement": inserted_by_rule,
    "BatchWriteItem": removed_by_rule,
}
