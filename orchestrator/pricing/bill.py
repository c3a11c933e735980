"""Counts and prices in, lines and a total out; nothing is read or asked here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from orchestrator.pricing.table import Name, Prices
from piecework.metering.owners import WHOLE
from piecework.usage import NANO

Counts = Mapping[str, int]

GB: Final = 1024**3
#: What each operation is billed by, and in what.
BILLED: Final[Mapping[str, tuple[Name, str]]] = {
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
        ("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"),
        ("dynamodb_write_unit", "units"),
    ),
    **dict.fromkeys(("GetItem", "Query", "Scan"), ("dynamodb_read_unit", "units")),
    **dict.fromkeys(("PutObject", "ListObjectsV2"), ("s3_put", "requests")),
    **dict.fromkeys(("GetObject", "HeadObject"), ("s3_get", "requests")),
}
SERVICES: Final = {"sqs": "SQS", "dynamodb": "DynamoDB", "s3": "S3"}
UNITS: Final = {
    "sqs_request": "requests",
    "dynamodb_write_unit": "write units",
    "dynamodb_read_unit": "read units",
    "s3_put": "requests",
    "s3_get": "requests",
}


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker runs on: a Fargate task's size; nothing: not known."""

    vcpu: float = 0.0
    gb: float = 0.0
    arm: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the bill.

    Attributes:
        price: Of one; None: there is none, and the line is in no sum.
        requests: How many requests it took; 0 where that is not the question.
    """

    group: str
    what: str
    count: float
    unit: str
    price: float | None
    requests: float = 0.0

    @property
    def usd(self) -> float | None:
        """What it comes to."""
        return None if self.price is None else self.count * self.price


def lines(counts: Counts, prices: Prices, region: str, task: Task) -> list[Line]:
    """Return the lines of a bill, service by service."""
    return [
        *operations(counts, prices, region),
        *storage(counts, prices, region),
        *compute(counts, prices, region, task),
        *models(counts, prices),
    ]


def total(found: Iterable[Line]) -> float:
    """Return what the lines with a price come to."""
    return sum(line.usd or 0.0 for line in found)


def operations(counts: Counts, prices: Prices, region: str) -> Iterator[Line]:
    """Yield a line for each operation of AWS's that costs anything."""
    for operation, (name, measure) in BILLED.items():
        requests = counts.get(f"op__{operation}__requests", 0) / WHOLE
        count = counts.get(f"op__{operation}__{measure}", 0) / WHOLE
        if requests or count:
            service = SERVICES[name.partition("_")[0]]
            price = prices.of(region, name).of_one
            yield Line(service, operation, count, UNITS[name], price, requests)


def storage(counts: Counts, prices: Prices, region: str) -> Iterator[Line]:
    """Yield what a month of keeping costs that was put into the bucket."""
    size = counts.get("op__PutObject__bytes", 0) / GB
    if size:
        price = prices.of(region, "s3_gb_month").of_one
        yield Line("S3", "kept for a month", size, "GB-months", price)


def compute(counts: Counts, prices: Prices, region: str, task: Task) -> Iterator[Line]:
    """Yield the busy time of the workers: priced, where their size is known."""
    hours = counts.get("busy_ms", 0) / 1000 / 3600
    if not hours:
        return
    if not task.vcpu:
        yield Line("workers", "busy time", hours, "hours", None)
        return
    cpu: Name = "fargate_arm_vcpu_hour" if task.arm else "fargate_vcpu_hour"
    memory: Name = "fargate_arm_gb_hour" if task.arm else "fargate_gb_hour"
    of_cpu, of_memory = prices.of(region, cpu), prices.of(region, memory)
    yield Line("workers", "vCPU", hours * task.vcpu, "vCPU-hours", of_cpu.of_one)
    yield Line("workers", "memory", hours * task.gb, "GB-hours", of_memory.of_one)


def models(counts: Counts, prices: Prices) -> Iterator[Line]:
    """Yield what was paid for calls: by their own word, else by the prices given."""
    for model, spent in sorted(calls(counts, "paid").items()):
        made = spent["calls"]
        if spent["nano_usd"]:
            usd = spent["nano_usd"] / NANO / made
            yield Line("calls", model, made, "calls", usd)
            continue
        yield Line("calls", model, made, "calls", None)
        known = prices.of_model(model)
        for measure, said in (("tokens_in", "in"), ("tokens_out", "out")):
            if spent[measure]:
                price = known.get(measure)  # type: ignore[call-overload]
                of_one = None if price is None else price.of_one
                yield Line(
                    "calls", f"{model}, {said}", spent[measure], "tokens", of_one
                )


def calls(counts: Counts, answered: str) -> dict[str, dict[str, int]]:
    """Return what was counted of calls, by model and measure."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for name, count in counts.items():
        kind, _, rest = name.partition("__")
        if kind == answered:
            model, _, measure = rest.rpartition("__")
            found[model][measure] += count
    return found


def added(rows: Iterable[Counts]) -> dict[str, int]:
    """Add counts up."""
    found: dict[str, int] = defaultdict(int)
    for row in rows:
        for name, count in row.items():
            found[name] += count
    return dict(found)
