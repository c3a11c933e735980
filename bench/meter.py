"""Count AWS requests by operation, with billed requests and units.

The module uses only the standard library, because it also runs in the emulator's own
environment. For a refused write, it counts the existing item if the reply contains it.
"""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from piecework_orchestrator.cost.prices import Prices

# The product's own size rules; that file has no imports.
_FILE = Path(__file__).parents[1] / "piecework" / "cost" / "units.py"
_SPEC: Any = importlib.util.spec_from_file_location("units", _FILE)
units: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(units)

WRITES = frozenset({"UpdateItem", "PutItem", "DeleteItem", "TransactWriteItems"})
WRITES |= {"BatchExecuteStatement", "BatchWriteItem"}
READS = frozenset({"GetItem", "BatchGetItem", "Query", "Scan"})
#: Requests with this user agent only observe, and are not counted.
OBSERVER_AGENT = b"bench-watcher"


def count_request(
    counts: dict[str, list[float]],
    name: str,
    inwards: int,
    outwards: int,
    consumed_units: float,
) -> None:
    """Count a request: [requests, billed, units, bytes in, bytes out]."""
    row = counts.get(name)
    if row is None:
        row = counts[name] = [0, 0, 0, 0, 0]
    row[0] += 1
    row[1] += billed_requests(name, inwards, outwards)
    row[2] += consumed_units
    row[3] += inwards
    row[4] += outwards


def is_observer(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a request only observes."""
    return headers.get(b"user-agent", b"").startswith(OBSERVER_AGENT)


def operation(
    method: str, path: str, query: bytes, headers: Mapping[bytes, bytes], body: bytes
) -> str:
    """Return a request's service and operation: `sqs.DeleteMessage` and so on."""
    target = headers.get(b"x-amz-target")
    if target:
        service, _, action = target.decode().partition(".")
        return f"{'sqs' if service == 'AmazonSQS' else 'dynamodb'}.{action}"
    credential = headers.get(b"authorization", b"")
    form = body if b"Action=" in body[:4096] else query
    actions = parse_qs(form.decode("latin-1")).get("Action")
    if actions:
        return f"{'sqs' if b'/sqs/' in credential else 'other'}.{actions[0]}"
    if b"/s3/" not in credential:
        return "other.unknown"
    if method == "GET" and path.strip("/").count("/") == 0:
        return "s3.List"
    return f"s3.{method.title()}"


def billed_requests(name: str, inwards: int, outwards: int) -> int:
    """Return the requests that a request is billed as: SQS counts its payload."""
    if not name.startswith("sqs."):
        return 1
    return int(units.sqs_requests(max(inwards, outwards)))


def size(item: Mapping[str, Any]) -> int:
    """Return the bytes that DynamoDB counts for an item."""
    return int(units.item_size(item))


def write_units(size: int) -> int:
    """Return the units of writing an item, by the larger of its sizes."""
    return int(units.write_units(size))


def read_units(asked: Mapping[str, Any], found: Mapping[str, Any]) -> float:
    """Return the units of a read, from the items read."""
    if "RequestItems" in asked:
        batch: float = units.got_by_rule(asked, found)
        return batch
    items = found.get("Items", [found["Item"]] if "Item" in found else [])
    read_body: int = units.read_units(sum(map(size, items)))
    return read_body if asked.get("ConsistentRead") else math.ceil(read_body) / 2


def refused_write_units(body: bytes, answer: Mapping[str, Any]) -> float:
    """Return the units of a refused write; other errors cost nothing."""
    kind = answer.get("__type", "")
    if "ConditionalCheckFailed" in kind:
        return write_units(size(answer.get("Item", {})))
    if "TransactionCanceled" not in kind and "TransactionConflict" not in kind:
        return 0
    return int(units.TRANSACTION) * len(json.loads(body)["TransactItems"])


# ── count AWS requests by operation ───────────────────────────────────────────

REGION = "us-east-1"
READ_OPERATIONS = ("GetItem", "Query", "Scan", "BatchGetItem")
#: Requests made once per process or deployment; not a cost of the work.
SETUP_OPERATIONS = frozenset(
    {"sqs.CreateQueue", "sqs.GetQueueUrl", "sqs.GetQueueAttributes"}
    | {"sqs.SetQueueAttributes", "sqs.ListQueues", "sqs.DeleteQueue", "sqs.PurgeQueue"}
    | {"dynamodb.CreateTable", "dynamodb.DescribeTable", "dynamodb.DeleteTable"}
)


@dataclass(frozen=True, slots=True)
class Row:
    """One operation: its requests, billed requests, units and bytes."""

    requests: float = 0
    billed: float = 0
    units: float = 0
    bytes_in: float = 0
    bytes_out: float = 0

    @property
    def fields(self) -> tuple[float, ...]:
        """All of it."""
        return (self.requests, self.billed, self.units, self.bytes_in, self.bytes_out)


@dataclass(frozen=True, slots=True)
class Counts:
    """Operations, each with its row; `sqs.SendMessageBatch` and so on."""

    rows: Mapping[str, Row] = field(default_factory=dict)

    @classmethod
    def read(cls, document: Mapping[str, Sequence[float]]) -> Counts:
        """Read the counts of the AWS server, without the setup operations."""
        kept = {
            name: Row(*row)
            for name, row in document.items()
            if is_workload_operation(name)
        }
        return cls(kept)

    def since(self, before: Counts) -> Counts:
        """Return the counts since an earlier reading."""
        rows = {}
        for name, row in self.rows.items():
            old = before.rows.get(name, Row())
            new = [b - a for a, b in zip(old.fields, row.fields, strict=True)]
            if new[0]:
                rows[name] = Row(*new)
        return Counts(rows)

    @property
    def requests(self) -> float:
        """The number of requests."""
        return sum(row.requests for row in self.rows.values())

    def requests_of(self, *names: str) -> float:
        """Return how many requests of some operations there were."""
        return sum(self.rows[name].requests for name in names if name in self.rows)

    def units(self, reads: bool) -> float:  # noqa: FBT001 -- one of two kinds
        """Return the read units, or the write units."""
        return sum(
            row.units
            for name, row in self.rows.items()
            if (name.partition(".")[2] in READ_OPERATIONS) is reads
        )

    def usd(self, prices: Prices) -> float:
        """Return the price that AWS charges."""
        return sum(
            amount * prices.price(REGION, price).unit_price
            for price, amount in self.amounts().items()
        )

    def amounts(self) -> dict[Any, float]:
        """Return the amount of each priced unit."""
        rows = self.rows.items()
        return {
            "sqs_request": sum(r.billed for name, r in rows if name.startswith("sqs.")),
            "dynamodb_write_unit": self.units(reads=False),
            "dynamodb_read_unit": self.units(reads=True),
            "s3_put": self.requests_of("s3.Put", "s3.Post", "s3.List"),
            "s3_get": self.requests_of("s3.Get", "s3.Head"),
        }

    def document(self) -> dict[str, list[float]]:
        """Return the counts in their stored form."""
        return {name: list(row.fields) for name, row in sorted(self.rows.items())}


def is_workload_operation(name: str) -> bool:
    """Return whether an operation is part of the work."""
    return name not in SETUP_OPERATIONS and not name.startswith("other.")


def total(parts: Iterable[Counts]) -> Counts:
    """Return the sum of counts."""
    rows: dict[str, Row] = {}
    for part in parts:
        for name, row in part.rows.items():
            old = rows.get(name, Row())
            both = zip(old.fields, row.fields, strict=True)
            rows[name] = Row(*(a + b for a, b in both))
    return Counts(rows)
