"""Deploy `infra/data.yaml` through CloudFormation; a second time changes nothing.

MiniStack drops a few settings of the template without a word: expiry (TTL),
point-in-time recovery and encryption of the tables, and the bucket's lifecycle.
Nothing in the protocol waits for them, and a test of the template holds them.
"""

from __future__ import annotations

import time
from typing import Any

from orchestrator.embedded import resources
from orchestrator.embedded.client import client
from piecework.endpoint import Emulator
from piecework.errors import UnreachableError

PATIENCE_S = 120.0


def into(emulator: Emulator, app: str, env: str) -> None:
    """Deploy into the embedded emulator."""
    cloudformation = client("cloudformation", emulator)
    try:
        deploy(cloudformation, app, env)
    finally:
        cloudformation.close()


def deploy(cloudformation: Any, app: str, env: str, *, poll_s: float = 0.05) -> None:
    """Create or update the data stack with a CloudFormation client of any origin."""
    from botocore.exceptions import BotoCoreError, ClientError

    name = stack_name(app, env)
    try:
        present = _describe(cloudformation, name)
        wanted = {"App": app, "Env": env}
        if present is None:
            cloudformation.create_stack(**_request(name, wanted))
        elif not _is_current(cloudformation, present, wanted):
            cloudformation.update_stack(**_request(name, wanted))
        _settled(cloudformation, name, poll_s)
    except (BotoCoreError, ClientError) as error:
        raise _refused(name, str(error)) from error


def stack_name(app: str, env: str) -> str:
    """Return the name of the stack that holds queues, tables and bucket."""
    return f"{app}-{env}-data"


def _describe(cloudformation: Any, name: str) -> dict[str, Any] | None:
    from botocore.exceptions import ClientError

    try:
        stacks = cloudformation.describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        # CloudFormation has no code of its own for "no such stack".
        if error.response["Error"]["Code"] == "ValidationError":
            return None
        raise
    return dict(stacks[0])


def _is_current(
    cloudformation: Any, stack: dict[str, Any], wanted: dict[str, str]
) -> bool:
    """Compare template and parameters; an update without a change is an error."""
    given = {
        item["ParameterKey"]: item["ParameterValue"]
        for item in stack.get("Parameters", [])
    }
    if any(given.get(key) != value for key, value in wanted.items()):
        return False
    template = cloudformation.get_template(
        StackName=stack["StackName"], TemplateStage="Original"
    )
    return bool(template["TemplateBody"] == resources.template())


def _request(name: str, parameters: dict[str, str]) -> dict[str, Any]:
    return {
        "StackName": name,
        "TemplateBody": resources.template(),
        "Parameters": [
            {"ParameterKey": key, "ParameterValue": value}
            for key, value in parameters.items()
        ],
    }


def _settled(cloudformation: Any, name: str, poll_s: float) -> None:
    """Wait until the stack is complete; anything else is told with its reason."""
    for _ in range(round(PATIENCE_S / poll_s)):
        stack = _describe(cloudformation, name) or {"StackStatus": "DELETED"}
        status = str(stack["StackStatus"])
        if status in {"CREATE_COMPLETE", "UPDATE_COMPLETE"}:
            return
        if not status.endswith("_IN_PROGRESS"):
            reason = stack.get("StackStatusReason", "no reason given")
            raise _refused(name, f"{status}: {reason}")
        time.sleep(poll_s)
    raise _refused(name, f"still not complete after {PATIENCE_S:.0f} s")


def _refused(name: str, why: str) -> UnreachableError:
    return UnreachableError(
        f"The stack {name} could not be deployed: {why}",
        code="embedded.deploy.failed",
        next_step="run `piecework down`, then `piecework up`",
        stack=name,
    )
