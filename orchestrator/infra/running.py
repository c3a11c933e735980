"""Running jobs of every tenant; while there are any, an environment is not removed."""

from __future__ import annotations

from typing import Any, Final

from orchestrator.infra.environment import Environment
from orchestrator.infra.refusals import translated_aws_errors
from orchestrator.infra.site import AwsSession
from piecework import keys
from piecework.errors import UsageError
from piecework.settings import Settings

#: Job ids in the error message.
MAX_NAMED_JOBS: Final = 5


def refuse_running_jobs(session: AwsSession, environment: Environment) -> None:
    """Raise if the environment has running jobs.

    Raises:
        UsageError: `infra.jobs.running`.
    """
    jobs = running_jobs(session, environment)
    if not jobs:
        return
    named = ", ".join(jobs[:MAX_NAMED_JOBS]) + (
        ", …" if len(jobs) > MAX_NAMED_JOBS else ""
    )
    count = "1 job is" if len(jobs) == 1 else f"{len(jobs)} jobs are"
    message = f"{count} still running in {environment.name}: {named}."
    raise UsageError(message, code="infra.jobs.running")


def running_jobs(session: AwsSession, environment: Environment) -> list[str]:
    """Return the ids of jobs that have not ended; empty if the table does not exist."""
    table = Settings(app=environment.app, env=environment.env).checkpoints_table
    dynamodb = session.make_client("dynamodb")
    with translated_aws_errors(table, "dynamodb"):
        try:
            return _query_active_jobs(dynamodb, table)
        except dynamodb.exceptions.ResourceNotFoundException:
            return []


def _query_active_jobs(dynamodb: Any, table: str) -> list[str]:
    pages = dynamodb.get_paginator("query").paginate(
        TableName=table,
        KeyConditionExpression="pk = :active",
        ExpressionAttributeValues={":active": {"S": keys.ACTIVE_PK}},
        ConsistentRead=True,
    )
    return [f"{row['job']['S']}" for page in pages for row in page["Items"]]
