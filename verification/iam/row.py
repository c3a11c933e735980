"""A row of the call table: who asks AWS for what, on which resource, and what for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

ARN = "arn:aws:{service}:us-east-1:000000000000:"
BUCKET = "arn:aws:s3:::piecework-prod-000000000000-us-east-1"
ALL = "*"
#: What the names in the table's rows stand for.
PLACES = {
    "work": f"{ARN}piecework-prod-work",
    "work-dlq": f"{ARN}piecework-prod-work-dlq",
    "checkpoints": f"{ARN}table/piecework-prod-checkpoints",
    "dead-letters": f"{ARN}table/piecework-prod-dead-letters",
    "bucket": BUCKET,
    "inbox": "arn:aws:s3:::inbox/manifests/*",
    "key": "arn:aws:kms:us-east-1:000000000000:key/1234",
    "model": "arn:aws:bedrock:us-east-1::foundation-model/some.model-v1:0",
    "tasks": f"{ARN}task/piecework-prod/*",
    "image": "arn:aws:ecr:us-east-1:000000000000:repository/piecework",
    "secret": "arn:aws:secretsmanager:us-east-1:000000000000:secret:token-AbCdEf",
    "stacks": f"{ARN}stack/piecework-prod-*/*",
    **{
        f"stack/{name}": f"{ARN}stack/piecework-prod-{name}/*"
        for name in ("alarms", "data", "network", "scaling", "service")
    },
    "logs/worker": f"{ARN}log-group:/piecework/prod/worker:*",
    "logs/reconciler": f"{ARN}log-group:/piecework/prod/reconciler:*",
    "logs/command": f"{ARN}log-group:/piecework/prod/command:*",
}
#: A reason that several rows have.
NO_KMS = "the embedded AWS encrypts nothing"


@dataclass(frozen=True, slots=True)
class Row:
    """Some actions on some resources.

    Attributes:
        on: Names of `PLACES`; what ends in a stroke is a kind of objects.
        unproven: Why nothing here can show that it is needed; empty: the run does.
    """

    actions: tuple[str, ...]
    on: tuple[str, ...]
    by: str
    why: str
    unproven: str = ""

    def pairs(self, tenant: str) -> Iterator[tuple[str, str]]:
        """Yield each action with each resource, in full."""
        for action in self.actions:
            service = action.partition(":")[0]
            for name in self.on:
                yield action, place(name, tenant).format(service=service)


def place(name: str, tenant: str) -> str:
    """Return the ARN that a row's word stands for."""
    if name.endswith("/"):
        return f"{BUCKET}/tenants/{tenant}/jobs/*/{name}*"
    return PLACES.get(name, name)


def row(actions: str, on: str, by: str, why: str, unproven: str = "") -> Row:
    """Return a row; actions of one service share its name."""
    service, _, names = actions.partition(":")
    each = tuple(f"{service}:{name}" for name in names.split())
    return Row(each, tuple(on.split()), by, why, unproven)


ADDRESSES = row(
    "sqs:GetQueueUrl",
    "work work-dlq",
    "piecework.runtime:queue_url",
    "every connection asks for the addresses of both queues",
)
LOOKS = (
    row(
        "dynamodb:DescribeTable",
        "checkpoints dead-letters",
        "piecework_orchestrator.doctor:_check_resources",
        "doctor: are the tables there?",
    ),
    row(
        "s3:ListBucket",
        "bucket",
        "piecework_orchestrator.doctor:_check_resources",
        "doctor: is the bucket there? results --save: which artifacts are there?",
    ),
)
KEY = row(
    "kms:Decrypt GenerateDataKey",
    "key",
    "piecework.runtime:connect",
    "queues, tables and bucket use the key in the name of who writes or reads",
    NO_KMS,
)
