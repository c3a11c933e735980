"""Jobs under way, of every tenant: what an environment must not be taken from."""

from __future__ import annotations

from typing import Any, Final

from orchestrator.infra.environment import Environment
from orchestrator.infra.refusals import explained
from orchestrator.infra.site import Site
from piecework import keys
from piecework.errors import UsageError
from piecework.settings import Settings

#: Jobs that a refusal names.
NAMED: Final = 5


def refuse_running(site: Site, environment: Environment) -> None:
    """Raise while jobs run.

    Raises:
        UsageError: `infra.jobs.running`.
    """
    jobs = running(site, environment)
    if not jobs:
        return
    named = ", ".join(jobs[:NAMED]) + (", …" if len(jobs) > NAMED else "")
    count = "1 job is" if len(jobs) == 1 else f"{len(jobs)} jobs are"
    message = f"{count} under way in {environment.name}: {named}."
    raise UsageError(message, code="infra.jobs.running")


def running(site: Site, environment: Environment) -> list[str]:
    """Return the jobs that have not ended; none where there is no table."""
    table = Settings(app=environment.app, env=environment.env).checkpoints_table
    dynamodb = site.make("dynamodb")
    with explained(table, "dynamodb"):
        try:
            return _active(dynamodb, table)
        except dynamodb.exceptions.ResourceNotFoundException:
            return []


def _active(dynamodb: Any, table: str) -> list[str]:
    pages = dynamodb.get_paginator("query").paginate(
        TableName=table,
        KeyConditionExpression="pk = :active",
        ExpressionAttributeValues={":active": {"S": keys.ACTIVE_PK}},
        ConsistentRead=True,
    )
    return [f"{row['job']['S']}" for page in pages for row in page["Items"]]
