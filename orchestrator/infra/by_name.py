"""Delete tables and queues by name, because they are retained when their stack goes.

Deleting twice does no harm: a table or queue that does not exist is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from orchestrator.infra.refusals import InfraError, translated_aws_errors
from orchestrator.infra.site import AwsSession
from orchestrator.infra.talk import Interaction

#: Polls of a table that is changing; a change takes DynamoDB seconds.
MAX_POLLS: Final = 150
TABLE_POLL_S: Final = 1.0


def delete_by_name(
    session: AwsSession, resources: Iterable[tuple[str, str]], interaction: Interaction
) -> None:
    """Delete each resource, given as CloudFormation type and physical id.

    Raises:
        InfraError: `infra.delete.failed`.
    """
    sqs, dynamodb = session.make_client("sqs"), session.make_client("dynamodb")
    for kind, name in resources:
        if kind == "AWS::DynamoDB::Table":
            with translated_aws_errors(name, "dynamodb"):
                _delete_table(session, dynamodb, name, interaction)
        else:
            with translated_aws_errors(name, "sqs"):
                _delete_queue(sqs, name)
        interaction.report(f"{name} is deleted")


def _delete_queue(sqs: Any, url: str) -> None:
    try:
        sqs.delete_queue(QueueUrl=url)
    except sqs.exceptions.QueueDoesNotExist:
        return


def _delete_table(
    session: AwsSession, dynamodb: Any, name: str, interaction: Interaction
) -> None:
    try:
        table = _wait_until_active(session, dynamodb, name)
        if table.get("DeletionProtectionEnabled"):
            interaction.report(f"{name}: turning off deletion protection")
            dynamodb.update_table(TableName=name, DeletionProtectionEnabled=False)
            _wait_until_active(session, dynamodb, name)
        dynamodb.delete_table(TableName=name)
    except dynamodb.exceptions.ResourceNotFoundException:
        return


def _wait_until_active(session: AwsSession, dynamodb: Any, name: str) -> dict[str, Any]:
    """Wait until the table accepts a change; return its description."""
    for _ in range(MAX_POLLS):
        table: dict[str, Any] = dynamodb.describe_table(TableName=name)["Table"]
        if table["TableStatus"] == "ACTIVE":
            return table
        session.sleep(TABLE_POLL_S)
    message = f"The table {name} is still {table['TableStatus']} and was not deleted."
    raise InfraError(message, code="infra.delete.failed")
