"""Count AWS requests by operation, with billed requests, units and price."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.pricing.table import Prices

REGION = "us-east-1"
READS = ("GetItem", "Query", "Scan", "BatchGetItem")
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
            if (name.partition(".")[2] in READS) is reads
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
