"""What a run costs at most, before it starts: list prices times generous counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from piecework_orchestrator.cost.prices import PriceName, Prices

#: Write units and read units of a chunk of the large submit that is created and
#: cancelled: it is written twice, counted, and read by the sweep.
WRITES_A_CHUNK, READS_A_CHUNK = 4, 2
#: The units of the demo's job with its redrive, from its bill, rounded up.
DEMO_WRITES, DEMO_READS = 3_000, 500
#: The units of the probes of conformance: about 200 tables, queues and buckets with a
#: few items.
PROBE_WRITES, PROBE_READS, PROBE_REQUESTS = 20_000, 20_000, 5_000
#: Requests to SQS and S3 of all steps, rounded up.
SQS_REQUESTS, S3_REQUESTS = 20_000, 2_000
#: Hours of a deployment with a service, and its workers.
HOURS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """Dollars of each step, at most."""

    steps: dict[str, float]

    @property
    def total(self) -> float:
        """The sum."""
        return sum(self.steps.values())


def estimate(
    prices: Prices, region: str, chunks: int, *, with_service: bool
) -> Estimate:
    """Return what each step costs at most.

    Raises:
        UsageError: `config.price.missing`.
    """

    def usd(name: PriceName, amount: float) -> float:
        return prices.price(region, name).unit_price * amount

    def rows(writes: float, reads: float) -> float:
        return usd("dynamodb_write_unit", writes) + usd("dynamodb_read_unit", reads)

    requests = usd("sqs_request", SQS_REQUESTS) + usd("s3_put", S3_REQUESTS)
    service = 0.0
    if with_service:
        service = HOURS * (
            3 * usd("fargate_vcpu_hour", 1)
            + 6 * usd("fargate_gb_hour", 1)
            + 6 * usd("public_ipv4_hour", 1)
        )
    return Estimate(
        {
            "deploy": service + requests,
            "conformance": rows(PROBE_WRITES, PROBE_READS)
            + usd("s3_put", PROBE_REQUESTS)
            + usd("sqs_request", PROBE_REQUESTS),
            "demo": rows(DEMO_WRITES, DEMO_READS),
            "submit": rows(WRITES_A_CHUNK * chunks, READS_A_CHUNK * chunks),
        }
    )
