"""Delete tables and queues by name, which outlive their stack; somebody has said so.

Done twice it does no harm: what is gone already is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from orchestrator.infra.refusals import InfraError, explained
from orchestrator.infra.site import Site
from orchestrator.infra.talk import Talk

#: Looks at a table that changes; DynamoDB takes seconds.
PATIENCE: Final = 150
LOOK_S: Final = 1.0


def delete_by_name(site: Site, meant: Iterable[tuple[str, str]], talk: Talk) -> None:
    """Delete each; it is given by its type and its physical id.

    Raises:
        InfraError: `infra.delete.failed`.
    """
    sqs, dynamodb = site.make("sqs"), site.make("dynamodb")
    for kind, name in meant:
        if kind == "AWS::DynamoDB::Table":
            with explained(name, "dynamodb"):
                _delete_table(site, dynamodb, name, talk)
        else:
            with explained(name, "sqs"):
                _delete_queue(sqs, name)
        talk.say(f"{name} is deleted")


def _delete_queue(sqs: Any, url: str) -> None:
    try:
        sqs.delete_queue(QueueUrl=url)
    except sqs.exceptions.QueueDoesNotExist:
        return


def _delete_table(site: Site, dynamodb: Any, name: str, talk: Talk) -> None:
    try:
        table = _settled(site, dynamodb, name)
        if table.get("DeletionProtectionEnabled"):
            talk.say(f"{name}: deletion protection is turned off")
            dynamodb.update_table(TableName=name, DeletionProtectionEnabled=False)
            _settled(site, dynamodb, name)
        dynamodb.delete_table(TableName=name)
    except dynamodb.exceptions.ResourceNotFoundException:
        return


def _settled(site: Site, dynamodb: Any, name: str) -> dict[str, Any]:
    """Wait until the table takes a change; return what it is."""
    for _ in range(PATIENCE):
        table: dict[str, Any] = dynamodb.describe_table(TableName=name)["Table"]
        if table["TableStatus"] == "ACTIVE":
            return table
        site.pause(LOOK_S)
    message = f"The table {name} is in {table['TableStatus']} and cannot be deleted."
    raise InfraError(message, code="infra.delete.failed")
