"""List the published AWS limits that a job can reach, each with its page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_DYNAMODB: Final = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/"
_SQS: Final = (
    "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/"
)
_S3: Final = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/"


@dataclass(frozen=True, slots=True)
class Quota:
    """A published limit.

    Attributes:
        label: The label in the tables when the limit binds; empty: it never binds.
        raised: Whether AWS raises it on request.
    """

    label: str
    what: str
    limit: int
    unit: str
    page: str
    url: str
    raised: bool


PARTITION_WRITES: Final = Quota(
    "group",
    "writes to one partition, and so to one item",
    1_000,
    "write units a second",
    "Understanding DynamoDB warm throughput in different scenarios",
    f"{_DYNAMODB}warm-throughput-scenarios.html",
    raised=False,
)
PARTITION_READS: Final = Quota(
    "",
    "reads of one partition, and so of one item",
    3_000,
    "read units a second",
    "Understanding DynamoDB warm throughput in different scenarios",
    f"{_DYNAMODB}warm-throughput-scenarios.html",
    raised=False,
)
TABLE_WRITES: Final = Quota(
    "table",
    "writes to one table on demand, unless AWS raises it",
    40_000,
    "write units a second",
    "Quotas in Amazon DynamoDB",
    f"{_DYNAMODB}Limits.html",
    raised=True,
)
TABLE_READS: Final = Quota(
    "",
    "reads of one table on demand, unless AWS raises it",
    40_000,
    "read units a second",
    "Quotas in Amazon DynamoDB",
    f"{_DYNAMODB}Limits.html",
    raised=True,
)
NEW_TABLE_WRITES: Final = Quota(
    "",
    "writes to a new table on demand; later, twice its peak within 30 minutes",
    4_000,
    "write units a second",
    "Pre-warming a table for on-demand capacity mode",
    f"{_DYNAMODB}pre-warming-on-demand-capacity-mode.html",
    raised=True,
)
NEW_TABLE_READS: Final = Quota(
    "",
    "reads of a new table on demand; later, twice its peak within 30 minutes",
    12_000,
    "read units a second",
    "Pre-warming a table for on-demand capacity mode",
    f"{_DYNAMODB}pre-warming-on-demand-capacity-mode.html",
    raised=True,
)
ITEM: Final = Quota(
    "",
    "one item",
    400 * 1024,
    "bytes",
    "Quotas in Amazon DynamoDB",
    f"{_DYNAMODB}Limits.html",
    raised=False,
)
TRANSACTION: Final = Quota(
    "",
    "actions of one transaction",
    100,
    "actions",
    "TransactWriteItems",
    "https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html",
    raised=False,
)
IN_FLIGHT: Final = Quota(
    "flight",
    "messages of a standard queue received and not deleted (approximate)",
    120_000,
    "messages",
    "Amazon SQS queue quotas",
    f"{_SQS}quotas-queues.html",
    raised=True,
)
FIFO_IN_FLIGHT: Final = Quota(
    "",
    "messages of a FIFO queue received and not deleted",
    20_000,
    "messages",
    "Amazon SQS queue quotas",
    f"{_SQS}quotas-queues.html",
    raised=False,
)
FIFO_RATE: Final = Quota(
    "",
    "requests to a FIFO queue, for each action; 3,000 messages with batches of 10",
    300,
    "requests a second",
    "Amazon SQS message quotas",
    f"{_SQS}quotas-messages.html",
    raised=True,
)
MESSAGES: Final = Quota(
    "",
    "messages of one request to SQS",
    10,
    "messages",
    "Amazon SQS message quotas",
    f"{_SQS}quotas-messages.html",
    raised=False,
)
PREFIX_READS: Final = Quota(
    "payload",
    "reads of one prefix of a bucket, until S3 has split it",
    5_500,
    "requests a second",
    "Best practices design patterns: optimizing Amazon S3 performance",
    f"{_S3}optimizing-performance.html",
    raised=False,
)
PREFIX_WRITES: Final = Quota(
    "",
    "writes to one prefix of a bucket, until S3 has split it",
    3_500,
    "requests a second",
    "Best practices design patterns: optimizing Amazon S3 performance",
    f"{_S3}optimizing-performance.html",
    raised=False,
)
ONE_PUT: Final = Quota(
    "",
    "an object written with one request",
    5 * 1024**3,
    "bytes",
    "Uploading objects",
    f"{_S3}upload-objects.html",
    raised=False,
)
_ECS: Final = "https://docs.aws.amazon.com/general/latest/gr/ecs-service.html"
ON_DEMAND_VCPU: Final = Quota(
    "",
    "vCPU of tasks on demand in a new account: 11 small workers and the reconciler",
    6,
    "vCPU",
    "Amazon ECS endpoints and quotas",
    _ECS,
    raised=True,
)
SPOT_VCPU: Final = Quota(
    "",
    "vCPU of tasks on Spot in a new account: 12 small workers",
    6,
    "vCPU",
    "Amazon ECS endpoints and quotas",
    _ECS,
    raised=True,
)
TASKS: Final = Quota(
    "",
    "tasks of one service, and so workers of one deployment",
    5_000,
    "tasks",
    "Amazon ECS endpoints and quotas",
    _ECS,
    raised=True,
)
STARTS: Final = Quota(
    "",
    "starts of tasks by one service on Fargate",
    500,
    "tasks a minute",
    "Amazon ECS endpoints and quotas",
    _ECS,
    raised=False,
)
ALL: Final = (
    PARTITION_WRITES,
    PARTITION_READS,
    TABLE_WRITES,
    TABLE_READS,
    NEW_TABLE_WRITES,
    NEW_TABLE_READS,
    ITEM,
    TRANSACTION,
    IN_FLIGHT,
    FIFO_IN_FLIGHT,
    FIFO_RATE,
    MESSAGES,
    PREFIX_READS,
    PREFIX_WRITES,
    ONE_PUT,
    ON_DEMAND_VCPU,
    SPOT_VCPU,
    TASKS,
    STARTS,
)
