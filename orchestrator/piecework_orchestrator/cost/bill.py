"""Compute the lines and the total of a bill from counts and prices; no I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from piecework.cost.attribution import WHOLE
from piecework.domain.budget import NANO
from piecework.domain.call_usage import CallUsage, UsageKind
from piecework_orchestrator.cost.prices import PriceName, Prices
from piecework_orchestrator.cost.stored import Stored

Counts = Mapping[str, int]

GB: Final = 1024**3
#: Days of a month, as storage is billed.
MONTH_DAYS: Final = 730 / 24
#: The price and the measure by which each operation is billed.
BILLED: Final[Mapping[str, tuple[PriceName, str]]] = {
    **dict.fromkeys(
        (
            "SendMessageBatch",
            "ReceiveMessage",
            "ChangeMessageVisibilityBatch",
            "DeleteMessageBatch",
            "GetQueueUrl",
            "GetQueueAttributes",
        ),
        ("sqs_request", "requests"),
    ),
    **dict.fromkeys(
        (
            "BatchExecuteStatement",
            "PutItem",
            "UpdateItem",
            "DeleteItem",
            "TransactWriteItems",
            "BatchWriteItem",
        ),
        ("dynamodb_write_unit", "units"),
    ),
    **dict.fromkeys(
        ("GetItem", "BatchGetItem", "Query", "Scan"), ("dynamodb_read_unit", "units")
    ),
    **dict.fromkeys(("PutObject", "ListObjectsV2"), ("s3_put", "requests")),
    **dict.fromkeys(("GetObject", "HeadObject"), ("s3_get", "requests")),
}
GB_MONTHS: Final = "GB-months"
SERVICES: Final = {"sqs": "SQS", "dynamodb": "DynamoDB", "s3": "S3"}
UNITS: Final = {
    "sqs_request": "requests",
    "dynamodb_write_unit": "write units",
    "dynamodb_read_unit": "read units",
    "s3_put": "requests",
    "s3_get": "requests",
}


@dataclass(frozen=True, slots=True)
class TaskSize:
    """Size of a worker's Fargate task; the default is a small one of service.yaml."""

    vcpu: float = 0.5
    gb: float = 1.0
    arm: bool = False


@dataclass(frozen=True, slots=True)
class BillLine:
    """A line of the bill.

    Attributes:
        unit_price: Dollars per unit; None if not known: totals then exclude the line.
        requests: Number of requests; 0 if it does not apply.
    """

    group: str
    item: str
    count: float
    unit: str
    unit_price: float | None
    requests: float = 0.0

    @property
    def usd(self) -> float | None:
        """Cost in dollars, or None without a price."""
        return None if self.unit_price is None else self.count * self.unit_price


def aws_lines(
    counts: Counts,
    prices: Prices,
    region: str,
    task: TaskSize,
    stored: Stored | None = None,
    days: float = MONTH_DAYS,
) -> list[BillLine]:
    """Return the lines of AWS, service by service.

    `stored` are the rows of the job in the table; None: the lines of one process, which
    have no storage. They and the objects are kept for so many `days`.
    """
    months = days / MONTH_DAYS
    return [
        *operation_lines(counts, prices, region),
        *(() if stored is None else table_lines(stored, months, prices, region)),
        *(() if stored is None else object_lines(counts, months, prices, region)),
        *compute_lines(counts, prices, region, task),
        *network_lines(counts, prices, region),
        *log_lines(counts, prices, region),
    ]


def total(lines: Iterable[BillLine]) -> float:
    """Return the sum of the lines with a price, in dollars."""
    return sum(line.usd or 0.0 for line in lines)


def operation_lines(counts: Counts, prices: Prices, region: str) -> Iterator[BillLine]:
    """Yield a line for each billed AWS operation."""
    for operation, (name, measure) in BILLED.items():
        requests = counts.get(f"op__{operation}__requests", 0) / WHOLE
        count = counts.get(f"op__{operation}__{measure}", 0) / WHOLE
        if requests or count:
            service = SERVICES[name.partition("_")[0]]
            price = prices.price(region, name).unit_price
            yield BillLine(service, operation, count, UNITS[name], price, requests)


def table_lines(
    stored: Stored, months: float, prices: Prices, region: str
) -> Iterator[BillLine]:
    """Yield what the rows of a job cost until they are gone, and their deletion."""
    kept = stored.bytes / GB * (months + stored.spare_days / MONTH_DAYS)
    lines: tuple[tuple[str, float, str, PriceName], ...] = (
        ("rows, until deletion", kept, GB_MONTHS, "dynamodb_gb_month"),
        ("backups, until deletion", kept, GB_MONTHS, "dynamodb_backup_gb_month"),
        ("deletion", stored.write_units, "write units", "dynamodb_write_unit"),
        ("deletion, reads", stored.read_units, "read units", "dynamodb_read_unit"),
    )
    for item, count, unit, name in lines:
        if count:
            price = prices.price(region, name).unit_price
            yield BillLine("DynamoDB", item, count, unit, price)


def object_lines(
    counts: Counts, months: float, prices: Prices, region: str
) -> Iterator[BillLine]:
    """Yield the cost of storing the job's objects until their deletion."""
    size = counts.get("op__PutObject__bytes", 0) / GB
    if size:
        price = prices.price(region, "s3_gb_month").unit_price
        yield BillLine("S3", "objects, until deletion", size * months, GB_MONTHS, price)


def compute_lines(
    counts: Counts, prices: Prices, region: str, task: TaskSize
) -> Iterator[BillLine]:
    """Yield the busy time of the workers, at the price on demand."""
    hours = counts.get("busy_ms", 0) / 1000 / 3600
    if not hours:
        return
    cpu: PriceName = "fargate_arm_vcpu_hour" if task.arm else "fargate_vcpu_hour"
    memory: PriceName = "fargate_arm_gb_hour" if task.arm else "fargate_gb_hour"
    cpu_price = prices.price(region, cpu).unit_price
    memory_price = prices.price(region, memory).unit_price
    address_price = prices.price(region, "public_ipv4_hour").unit_price
    yield BillLine("workers", "vCPU", hours * task.vcpu, "vCPU-hours", cpu_price)
    yield BillLine("workers", "memory", hours * task.gb, "GB-hours", memory_price)
    yield BillLine("workers", "addresses", hours, "hours", address_price)


def network_lines(counts: Counts, prices: Prices, region: str) -> Iterator[BillLine]:
    """Yield what the calls sent to providers on the internet."""
    size = counts.get("call_bytes", 0) / GB
    if size:
        price = prices.price(region, "egress_gb").unit_price
        yield BillLine("network", "sent by calls", size, "GB", price)


def log_lines(counts: Counts, prices: Prices, region: str) -> Iterator[BillLine]:
    """Yield the logs of the workers: taken in, and kept for a month."""
    size = counts.get("log_bytes", 0) / GB
    names: tuple[tuple[str, PriceName], ...] = (
        ("taken in", "logs_gb"),
        ("kept for a month", "logs_gb_month"),
    )
    for item, name in names if size else ():
        price = prices.price(region, name).unit_price
        yield BillLine("logs", item, size, "GB", price)


def call_lines(
    usage: CallUsage, prices: Prices, kind: UsageKind = "paid"
) -> Iterator[BillLine]:
    """Yield the calls of each model, priced by reported cost, else by their tokens.

    Only of paid calls is recorded which ones were unpriced; others have their share.
    """
    paid, free = usage.models("paid"), usage.models("free")
    unpriced = usage.models("unpriced")
    for model, amounts in sorted(usage.models(kind).items()):
        rest, nano_usd = amounts, amounts["nano_usd"]
        if nano_usd or model in free:
            part, whole = unpriced.get(model, {}), paid.get(model, {})
            rest = {
                measure: n * part.get(measure, 0) // (whole.get(measure) or 1)
                for measure, n in amounts.items()
            }
            calls = max(1, amounts["calls"] - rest["calls"])
            yield BillLine("models", model, calls, "calls", nano_usd / NANO / calls)
            if not any(rest.values()):
                continue
        yield BillLine("models", model, rest["calls"], "calls", None)
        known = prices.model_prices(model)
        for measure, direction in (("tokens_in", "in"), ("tokens_out", "out")):
            if rest[measure]:
                price = known.get(measure)  # type: ignore[call-overload]
                unit_price = None if price is None else price.unit_price
                item = f"{model}, {direction}"
                yield BillLine("models", item, rest[measure], "tokens", unit_price)


def sum_counts(rows: Iterable[Counts]) -> dict[str, int]:
    """Add up counts by name."""
    found: dict[str, int] = defaultdict(int)
    for row in rows:
        for name, count in row.items():
            found[name] += count
    return dict(found)
