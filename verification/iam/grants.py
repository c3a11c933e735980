"""Read the table `grants.txt`: which role calls AWS for what, and why.

Tests hold that each call of a client in the code has a row, and each row its code. The
roles of the template grant this and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_name("grants.txt")
ARN = "arn:aws:{service}:us-east-1:000000000000:"
BUCKET = "arn:aws:s3:::piecework-prod-000000000000-us-east-1"
SERVICE_ROLES = "arn:aws:iam::000000000000:role/aws-service-role"
#: What the names in the table's rows stand for.
PLACES = {
    "work": f"{ARN}piecework-prod-work",
    "queues": f"{ARN}piecework-prod-work_*",
    "work-dlq": f"{ARN}piecework-prod-work-dlq",
    "checkpoints": f"{ARN}table/piecework-prod-checkpoints",
    "dead-letters": f"{ARN}table/piecework-prod-dead-letters",
    "bucket": BUCKET,
    "inbox": "arn:aws:s3:::inbox/manifests/*",
    "key": "arn:aws:kms:us-east-1:000000000000:key/1234",
    "model": "arn:aws:bedrock:us-east-1::foundation-model/some.model-v1:0",
    "command": f"{ARN}task-definition/piecework-prod-command",
    "commands": f"{ARN}task-definition/piecework-prod-command:*",
    **{
        f"role/{name}": f"arn:aws:iam::000000000000:role/piecework-prod-{name}"
        for name in ("execution", "orchestrator")
    },
    "tasks": f"{ARN}task/piecework-prod/*",
    "image": "arn:aws:ecr:us-east-1:000000000000:repository/piecework",
    "secret": "arn:aws:secretsmanager:us-east-1:000000000000:secret:token-AbCdEf",
    "stacks": f"{ARN}stack/piecework-prod-*/*",
    **{
        f"stack/{name}": f"{ARN}stack/piecework-prod-{name}/*"
        for name in ("alarms", "data", "network", "scaling", "service", "triggers")
    },
    "role-of-workers": "arn:aws:iam::000000000000:role/piecework-prod-worker",
    "role-of-ecs": f"{SERVICE_ROLES}/ecs.amazonaws.com/AWSServiceRoleForECS",
    "role-of-scaling": (
        f"{SERVICE_ROLES}/ecs.application-autoscaling.amazonaws.com/"
        "AWSServiceRoleForApplicationAutoScaling_ECSService"
    ),
    "service-roles": f"{SERVICE_ROLES}/*",
    "logs/worker": f"{ARN}log-group:/piecework/prod/worker:*",
    "logs/reconciler": f"{ARN}log-group:/piecework/prod/reconciler:*",
    "logs/command": f"{ARN}log-group:/piecework/prod/command:*",
}


@dataclass(frozen=True, slots=True)
class Row:
    """Grant some actions on some resources.

    Attributes:
        on: Names of `PLACES`; a name that ends in a stroke is a kind of object.
        unproven: Why no run here can show that it is needed; empty: the run does.
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
    if name == "jobs/*":
        return f"{BUCKET}/tenants/{tenant}/jobs/*"
    if name.endswith("/"):
        return f"{BUCKET}/tenants/{tenant}/jobs/*/{name}*"
    return PLACES.get(name, name)


def rows() -> dict[str, tuple[Row, ...]]:
    """Return the rows of the table by their roles."""
    found: dict[str, list[Row]] = {}
    for line in TABLE.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            role, actions, on, by, why, *unproven = map(str.strip, line.split("|"))
            service, _, names = actions.partition(":")
            each = tuple(f"{service}:{name}" for name in names.split())
            row = Row(each, tuple(on.split()), by, why, "".join(unproven))
            found.setdefault(role, []).append(row)
    return {role: tuple(some) for role, some in found.items()}


#: Each role with what the deploy command calls itself; `deploying.py` has the rest.
OURS = rows()
DEPLOY = OURS["deploy"]
#: Each role that has no part in deploying.
GRANTS = {role: some for role, some in OURS.items() if role != "deploy"}
