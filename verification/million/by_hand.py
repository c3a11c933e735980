"""The bill by hand: what was counted outside of Piecework, times list prices.

The AWS server counts requests and units, and has the rows. The provider counts bytes.
The log is a file. A reconciler whose clock is ahead by the retention deletes the job,
and its units are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench.meter import Counts
from piecework_orchestrator.cost.prices import PriceName, Prices
from verification.million.provider import WIRE_BYTES

GB = 1024**3
MILLION = 1_000_000
REGION = "us-east-1"
#: Days of a month of 730 hours.
MONTH_DAYS = 730 / 24
#: A small worker of service.yaml, on demand.
VCPU, MEMORY_GB = 0.5, 1.0
#: Bytes that DynamoDB adds to each item, and CloudWatch to each line.
ITEM_BYTES, LINE_BYTES = 100, 26


@dataclass(frozen=True, slots=True)
class Counted:
    """What was counted of one job.

    Attributes:
        run: The requests of submit and worker.
        deletion: The requests of its deletion.
        rows: The sizes of its rows.
        objects: Bytes of its objects.
        busy_s: Seconds for which the worker had chunks.
        sent: Bytes that the provider received.
        calls: Requests that it received.
        log: Lines and bytes of the worker's log.
        at_once: The requests that delete the rows at once which it has left.
        days: Days until the deletion.
        row_days: Days until the time of the rows.
    """

    chunks: int
    run: Counts
    deletion: Counts
    at_once: Counts
    rows: tuple[int, ...]
    objects: int
    busy_s: float
    sent: int
    calls: int
    log: tuple[int, int]
    days: float
    row_days: float


def by_hand(counted: Counted, prices: Prices) -> dict[str, float]:
    """Return the dollars of each line for a million such chunks."""
    months, kept = counted.days / MONTH_DAYS, counted.row_days / MONTH_DAYS
    run, deletion, hours = counted.run, counted.deletion, counted.busy_s / 3600
    table = sum(counted.rows) + ITEM_BYTES * len(counted.rows)
    lines, log = counted.log
    asked = run.amounts()
    amounts: Mapping[str, tuple[float, PriceName]] = {
        "writes": (run.units(reads=False), "dynamodb_write_unit"),
        "reads": (run.units(reads=True), "dynamodb_read_unit"),
        "SQS": (asked["sqs_request"], "sqs_request"),
        "S3 writes": (asked["s3_put"], "s3_put"),
        "S3 reads": (asked["s3_get"], "s3_get"),
        "S3 storage": (counted.objects / GB * months, "s3_gb_month"),
        "rows, until deletion": (table / GB * kept, "dynamodb_gb_month"),
        "backups": (table / GB * kept, "dynamodb_backup_gb_month"),
        "deletion": (deletion.units(reads=False), "dynamodb_write_unit"),
        "deletion, reads": (deletion.units(reads=True), "dynamodb_read_unit"),
        "workers, vCPU": (hours * VCPU, "fargate_vcpu_hour"),
        "workers, memory": (hours * MEMORY_GB, "fargate_gb_hour"),
        "workers, addresses": (hours, "public_ipv4_hour"),
        "sent by calls": (
            (counted.sent + WIRE_BYTES * counted.calls) / GB,
            "egress_gb",
        ),
        "logs taken in": ((log + LINE_BYTES * lines) / GB, "logs_gb"),
        "logs kept": ((log + LINE_BYTES * lines) / GB, "logs_gb_month"),
    }
    factor = MILLION / counted.chunks
    return {
        name: amount * prices.price(REGION, price).unit_price * factor
        for name, (amount, price) in amounts.items()
    }


#: The lines of `jobs cost` that each line by hand is compared with: group and items.
SAME: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "writes": (
        "DynamoDB",
        (
            "BatchExecuteStatement",
            "PutItem",
            "UpdateItem",
            "DeleteItem",
            "TransactWriteItems",
            "BatchWriteItem",
        ),
    ),
    "reads": ("DynamoDB", ("GetItem", "Query", "Scan")),
    "SQS": (
        "SQS",
        (
            "SendMessageBatch",
            "ReceiveMessage",
            "ChangeMessageVisibilityBatch",
            "DeleteMessageBatch",
        ),
    ),
    "S3 writes": ("S3", ("PutObject", "ListObjectsV2")),
    "S3 reads": ("S3", ("GetObject", "HeadObject")),
    "S3 storage": ("S3", ("objects, until deletion",)),
    "rows, until deletion": ("DynamoDB", ("rows, until deletion",)),
    "backups": ("DynamoDB", ("backups, until deletion",)),
    "deletion": ("DynamoDB", ("deletion",)),
    "deletion, reads": ("DynamoDB", ("deletion, reads",)),
    "workers, vCPU": ("workers", ("vCPU",)),
    "workers, memory": ("workers", ("memory",)),
    "workers, addresses": ("workers", ("addresses",)),
    "sent by calls": ("network", ("sent by calls",)),
    "logs taken in": ("logs", ("taken in",)),
    "logs kept": ("logs", ("kept for a month",)),
}


def as_told(bill: Mapping[str, object]) -> dict[str, float]:
    """Return the dollars of each line of `jobs cost` for a million such chunks.

    Raises:
        AssertionError: A line of the bill has no line by hand.
    """
    lines, chunks = bill["lines"], bill["chunks"]
    assert isinstance(lines, list)
    assert isinstance(chunks, int)
    usd = {
        (line["group"], line["item"]): line["usd"] or 0.0
        for line in lines
        if line["group"] != "models"
    }
    known = {(group, item) for group, items in SAME.values() for item in items}
    assert not usd.keys() - known, usd.keys() - known
    return {
        name: sum(usd.get((group, item), 0.0) for item in items) * MILLION / chunks
        for name, (group, items) in SAME.items()
    }
