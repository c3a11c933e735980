"""What a deployment costs in a month in which nobody asks it for anything; pure.

The requests follow from the settings; that idle processes make these, and no others, is
counted by a test of the true loops. What stands about follows from the templates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from orchestrator.pricing.bill import Line
from orchestrator.pricing.table import Name, Prices
from piecework.errors import UsageError
from piecework.reconcile.dead_letter_alarms import LOOKS
from piecework.reconcile.loop import IDLE_S
from piecework.settings import Settings

HOURS: Final = 730
SECONDS: Final = HOURS * 3600
#: The reconciler's task, as `infra/service.yaml` has it.
RECONCILER_VCPU: Final = 0.25
RECONCILER_GB: Final = 0.5
#: Zones in which each interface endpoint stands.
ZONES: Final = 2

Egress: TypeAlias = Literal["nat", "public", "none"]
WAYS: Final[tuple[Egress, ...]] = get_args(Egress)


@dataclass(frozen=True, slots=True)
class Standing:
    """What is there though nothing happens.

    Attributes:
        workers: Tasks that are kept warm; 0: the service is scaled to zero.
        vcpu, gb, arm: Their size, and everybody's processor.
        egress: The way out, as in `infra/network.yaml`.
        endpoints: Private endpoints, each in two zones.
        alarms, composites: Metrics that alarms watch, and alarms of alarms.
        dashboards, metrics: CloudWatch's, too; a metric counts once it is sent, and
            a reconciler that idles sends these.
        keys: Of KMS: the alarms' own, or one for everything.
        logs_gb: Logs in a month.
        stored_gb: Kept in tables and bucket, each.
    """

    workers: int = 0
    vcpu: float = 0.5
    gb: float = 1.0
    arm: bool = False
    egress: Egress = "nat"
    endpoints: int = 0
    alarms: int = 41
    composites: int = 1
    dashboards: int = 1
    metrics: int = 6
    keys: int = 1
    logs_gb: float = 0.1
    stored_gb: float = 1.0


def known_egress(text: str) -> Egress:
    """Return a way out, however it was typed.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    for way in WAYS:
        if text.lower() == way:
            return way
    message = f"There is no egress {text}."
    raise UsageError(message, next_step=f"Use one of {', '.join(WAYS)}.")


@dataclass(frozen=True, slots=True)
class Requests:
    """What idle processes ask for in a second, on an average."""

    worker_polls: float
    reconciler_polls: float
    looks_at_jobs: float
    looks_at_letters: float


def requests(settings: Settings) -> Requests:
    """Return what a worker and a reconciler ask for, who have nothing to do."""
    look_s = max(IDLE_S, settings.reconcile_s)
    shortest = min(settings.dead_letter_alarm_window_s, settings.dead_letter_age_s)
    # At letters it looks with the first look at the jobs for which they are due.
    letters_s = math.ceil(shortest / LOOKS / look_s) * look_s
    letters = 2 / letters_s if settings.dead_letter_alarm else 0.0
    return Requests(
        1 / max(1, settings.receive_wait_s), 1 / look_s, 1 / look_s, letters
    )


def idle_lines(
    settings: Settings, standing: Standing, prices: Prices, region: str
) -> list[Line]:
    """Return what a month costs, line by line.

    Raises:
        UsageError: `config.price.missing`.
    """
    asked = requests(settings)
    polls = asked.reconciler_polls + asked.worker_polls * standing.workers
    reads = asked.looks_at_jobs + asked.looks_at_letters
    found = [
        *tasks(standing),
        ("SQS", "polls", round(polls * SECONDS), "sqs_request"),
        ("DynamoDB", "looks", round(reads * SECONDS), "dynamodb_read_unit"),
        *network(standing),
        ("CloudWatch", "alarms", standing.alarms, "alarm_month"),
        (
            "CloudWatch",
            "alarms of alarms",
            standing.composites,
            "composite_alarm_month",
        ),
        ("CloudWatch", "dashboards", standing.dashboards, "dashboard_month"),
        ("CloudWatch", "metrics", standing.metrics, "metric_month"),
        ("CloudWatch", "logs taken in", standing.logs_gb, "logs_gb"),
        ("CloudWatch", "logs kept", standing.logs_gb, "logs_gb_month"),
        ("DynamoDB", "tables", standing.stored_gb, "dynamodb_gb_month"),
        ("DynamoDB", "their backup", standing.stored_gb, "dynamodb_backup_gb_month"),
        ("S3", "objects", standing.stored_gb, "s3_gb_month"),
        ("KMS", "keys", standing.keys, "kms_key_month"),
    ]
    lines = []
    for group, what, count, name in found:
        if count:
            price = prices.of(region, name)
            lines.append(Line(group, what, count, price.unit, price.of_one))
    return lines


def tasks(standing: Standing) -> Iterator[tuple[str, str, float, Name]]:
    """Yield the hours of the tasks that run."""
    vcpu: Name = "fargate_arm_vcpu_hour" if standing.arm else "fargate_vcpu_hour"
    memory: Name = "fargate_arm_gb_hour" if standing.arm else "fargate_gb_hour"
    yield "Fargate", "reconciler, vCPU", RECONCILER_VCPU * HOURS, vcpu
    yield "Fargate", "reconciler, memory", RECONCILER_GB * HOURS, memory
    warm = standing.workers * HOURS
    yield "Fargate", "warm workers, vCPU", warm * standing.vcpu, vcpu
    yield "Fargate", "warm workers, memory", warm * standing.gb, memory


def network(standing: Standing) -> Iterator[tuple[str, str, float, Name]]:
    """Yield the hours of the way out, and of the ways to AWS."""
    endpoints = standing.endpoints * ZONES * HOURS
    yield "network", "private endpoints", endpoints, "interface_endpoint_hour"
    if standing.egress == "nat":
        yield "network", "NAT gateway", HOURS, "nat_gateway_hour"
        yield "network", "its address", HOURS, "public_ipv4_hour"
    if standing.egress == "public":
        tasks = 1 + standing.workers
        yield "network", "addresses of tasks", tasks * HOURS, "public_ipv4_hour"
