"""Compute the cost of a deployment for a month without a job; no I/O.

The requests follow from the settings. A test runs the real loops and checks that idle
processes make exactly these requests. The resources follow from the templates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from piecework.errors import UsageError
from piecework.reconciler.dead_letter_queue import EVALUATIONS
from piecework.reconciler.expiry import LOOK_S
from piecework.reconciler.loop import IDLE_S
from piecework.settings import Settings
from piecework_orchestrator.cost.bill import BillLine
from piecework_orchestrator.cost.prices import PriceName, Prices

HOURS: Final = 730
SECONDS: Final = HOURS * 3600
#: Size of the reconciler's task in `infra/service.yaml`.
RECONCILER_VCPU: Final = 0.25
RECONCILER_GB: Final = 0.5
#: Seconds between two reports of an idle worker (`piecework_worker.report`).
REPORT_S: Final = 60
#: Availability zones of each interface endpoint.
ZONES: Final = 2
#: Metrics of Container Insights, from AWS's table of them. AWS bills each like a metric
#: of ours. There are metrics of the cluster, and of each service by the count of its
#: tasks. Each kind of task that runs has them twice: for its service and for its task
#: definition.
INSIGHTS_CLUSTER: Final = 13
INSIGHTS_SERVICE: Final = 5
INSIGHTS_TASKS: Final = 2 * 10
SERVICES: Final = 2

Egress: TypeAlias = Literal["nat", "public", "none"]
EGRESS_KINDS: Final[tuple[Egress, ...]] = get_args(Egress)


@dataclass(frozen=True, slots=True)
class IdleDeployment:
    """The resources of a deployment that cost money without a job.

    Attributes:
        workers: Tasks that run all month; 0 if the service is scaled to zero.
        vcpu: vCPUs of a worker's task.
        gb: Gigabytes of memory of a worker's task.
        arm: Whether workers and reconciler run on ARM.
        egress: Internet access of the tasks, as in `infra/network.yaml`.
        endpoints: Private endpoints, each in two zones.
        alarms: Metrics with an alarm.
        composites: Composite alarms.
        dashboards: CloudWatch dashboards.
        metrics: Metrics published; the default is what an idle reconciler publishes.
        keys: KMS keys: one for the alarms, or one for everything.
        logs_gb: Gigabytes of logs in a month.
        stored_gb: Gigabytes stored in the tables, and as many in the bucket.
    """

    workers: int = 0
    vcpu: float = 0.5
    gb: float = 1.0
    arm: bool = False
    egress: Egress = "public"
    endpoints: int = 0
    alarms: int = 45
    composites: int = 1
    dashboards: int = 1
    metrics: int = 7
    keys: int = 1
    logs_gb: float = 0.1
    stored_gb: float = 1.0


def parse_egress(text: str) -> Egress:
    """Return the egress kind of a text in any case.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    for kind in EGRESS_KINDS:
        if text.lower() == kind:
            return kind
    message = f"{text} is not a kind of egress."
    raise UsageError(message, next_step=f"Use one of {', '.join(EGRESS_KINDS)}.")


@dataclass(frozen=True, slots=True)
class IdleRequests:
    """Average requests per second of idle processes."""

    worker_polls: float
    worker_queries: float
    reconciler_polls: float
    job_queries: float
    dead_letter_queries: float
    expiry_queries: float


def idle_requests(settings: Settings) -> IdleRequests:
    """Return the requests per second of one idle worker and one idle reconciler."""
    pass_s = max(IDLE_S, settings.reconcile_s)
    shortest = min(settings.dead_letter_alarm_window_s, settings.dead_letter_age_s)
    # The reconciler counts dead letters in the first pass after they are due.
    dead_letters_s = math.ceil(shortest / EVALUATIONS / pass_s) * pass_s
    queries = 2 / dead_letters_s if settings.dead_letter_alarm else 0.0
    expiries_s = math.ceil(LOOK_S / pass_s) * pass_s
    # A worker looks for new backlogs after each empty poll.
    polls = 1 / max(1, settings.long_poll_s)
    passes = 1 / pass_s
    return IdleRequests(polls, polls, passes, passes, queries, 1 / expiries_s)


def idle_lines(
    settings: Settings, deployment: IdleDeployment, prices: Prices, region: str
) -> list[BillLine]:
    """Return the bill lines of an idle month.

    Raises:
        UsageError: `config.price.missing`.
    """
    rates = idle_requests(settings)
    polls = rates.reconciler_polls + rates.worker_polls * deployment.workers
    reads = rates.job_queries + rates.dead_letter_queries + rates.expiry_queries
    reads += rates.worker_queries * deployment.workers
    reports = deployment.workers * SECONDS // REPORT_S
    found = [
        *tasks(deployment),
        ("SQS", "polls", round(polls * SECONDS), "sqs_request"),
        ("DynamoDB", "queries", round(reads * SECONDS), "dynamodb_read_unit"),
        ("DynamoDB", "reports", reports, "dynamodb_write_unit"),
        *network(deployment),
        ("CloudWatch", "alarms", deployment.alarms, "alarm_month"),
        (
            "CloudWatch",
            "composite alarms",
            deployment.composites,
            "composite_alarm_month",
        ),
        ("CloudWatch", "dashboards", deployment.dashboards, "dashboard_month"),
        ("CloudWatch", "metrics", deployment.metrics, "metric_month"),
        ("CloudWatch", "Container Insights", insights(deployment), "metric_month"),
        ("CloudWatch", "logs ingested", deployment.logs_gb, "logs_gb"),
        ("CloudWatch", "logs stored", deployment.logs_gb, "logs_gb_month"),
        ("DynamoDB", "tables", deployment.stored_gb, "dynamodb_gb_month"),
        ("DynamoDB", "table backups", deployment.stored_gb, "dynamodb_backup_gb_month"),
        ("S3", "objects", deployment.stored_gb, "s3_gb_month"),
        ("KMS", "keys", deployment.keys, "kms_key_month"),
    ]
    lines = []
    for group, item, count, name in found:
        if count:
            price = prices.price(region, name)
            lines.append(BillLine(group, item, count, price.unit, price.unit_price))
    return lines


def insights(deployment: IdleDeployment) -> int:
    """Return the number of metrics that Container Insights writes."""
    running = 1 + bool(deployment.workers)
    return INSIGHTS_CLUSTER + SERVICES * INSIGHTS_SERVICE + running * INSIGHTS_TASKS


def tasks(deployment: IdleDeployment) -> Iterator[tuple[str, str, float, PriceName]]:
    """Yield the hours of the running tasks."""
    vcpu: PriceName = "fargate_arm_vcpu_hour" if deployment.arm else "fargate_vcpu_hour"
    memory: PriceName = "fargate_arm_gb_hour" if deployment.arm else "fargate_gb_hour"
    yield "Fargate", "reconciler, vCPU", RECONCILER_VCPU * HOURS, vcpu
    yield "Fargate", "reconciler, memory", RECONCILER_GB * HOURS, memory
    warm = deployment.workers * HOURS
    yield "Fargate", "warm workers, vCPU", warm * deployment.vcpu, vcpu
    yield "Fargate", "warm workers, memory", warm * deployment.gb, memory


def network(deployment: IdleDeployment) -> Iterator[tuple[str, str, float, PriceName]]:
    """Yield the hours of internet access and of private endpoints."""
    endpoints = deployment.endpoints * ZONES * HOURS
    yield "network", "private endpoints", endpoints, "interface_endpoint_hour"
    if deployment.egress == "nat":
        yield "network", "NAT gateway", HOURS, "nat_gateway_hour"
        yield "network", "NAT gateway address", HOURS, "public_ipv4_hour"
    if deployment.egress == "public":
        tasks = 1 + deployment.workers
        yield "network", "task addresses", tasks * HOURS, "public_ipv4_hour"
