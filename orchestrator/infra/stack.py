"""Read, create and update one CloudFormation stack, and wait for it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.infra.refusals import translated_aws_errors
from orchestrator.infra.standing import is_finished
from orchestrator.infra.templates import Template

#: Seconds between two polls of CloudFormation.
POLL_S = 2.0


@dataclass(frozen=True, slots=True)
class StackState:
    """The state of an existing stack."""

    id: str
    status: str
    reason: str
    parameters: Mapping[str, str]
    outputs: Mapping[str, str]
    protected: bool
    updated_at: str
    drift: str


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack by its name, with a CloudFormation client.

    Attributes:
        sleep: Waits for some seconds.
        poll_s: Seconds between two polls.
    """

    client: Any
    name: str
    sleep: Callable[[float], object] = field(default=time.sleep)
    poll_s: float = POLL_S

    def find(self, stack_id: str = "") -> StackState | None:
        """Return the stack's state, or None; a deleted stack is found by id only."""
        from botocore.exceptions import ClientError

        with translated_aws_errors(self.name):
            try:
                reply = self.client.describe_stacks(StackName=stack_id or self.name)
            except ClientError as error:
                # CloudFormation has no separate error code for "no such stack".
                if error.response["Error"]["Code"] == "ValidationError":
                    return None
                raise
        return _parse_state(reply["Stacks"][0])

    def template(self) -> str:
        """Return the template as it was submitted."""
        with translated_aws_errors(self.name):
            reply = self.client.get_template(
                StackName=self.name, TemplateStage="Original"
            )
        body = reply["TemplateBody"]
        # The SDK parses a template that was submitted as JSON.
        return body if isinstance(body, str) else json.dumps(body)

    def resources(self) -> list[dict[str, str]]:
        """Return logical id, physical id and type of each resource."""
        with translated_aws_errors(self.name):
            pages = self.client.get_paginator("list_stack_resources").paginate(
                StackName=self.name
            )
            return [
                {
                    "resource": row["LogicalResourceId"],
                    "id": row.get("PhysicalResourceId", ""),
                    "type": row["ResourceType"],
                }
                for page in pages
                for row in page["StackResourceSummaries"]
                if row["ResourceStatus"] != "DELETE_COMPLETE"
            ]

    def create_or_update(
        self, template: Template, parameters: Mapping[str, str], *, new: bool
    ) -> None:
        """Create or update the stack without a change set to review."""
        request = {
            "StackName": self.name,
            "TemplateBody": template.text,
            "Parameters": [
                {"ParameterKey": name, "ParameterValue": value}
                for name, value in parameters.items()
            ],
        }
        with translated_aws_errors(self.name):
            if new:
                self.client.create_stack(**request)
            else:
                self.client.update_stack(**request)

    def wait_until_finished(self, max_polls: int) -> StackState | None:
        """Wait until no operation runs; return None after `max_polls` polls."""
        for _ in range(max_polls):
            found = self.find()
            if found is not None and is_finished(found.status):
                return found
            self.sleep(self.poll_s)
        return None


def _parse_state(reply: Mapping[str, Any]) -> StackState:
    changed = reply.get("LastUpdatedTime") or reply.get("CreationTime")
    return StackState(
        id=str(reply["StackId"]),
        status=str(reply["StackStatus"]),
        reason=str(reply.get("StackStatusReason") or ""),
        parameters={
            p["ParameterKey"]: p.get("ParameterValue", "")
            for p in reply.get("Parameters", ())
        },
        outputs={o["OutputKey"]: o["OutputValue"] for o in reply.get("Outputs", ())},
        protected=bool(reply.get("EnableTerminationProtection")),
        updated_at=changed.isoformat() if changed else "",
        drift=str(reply.get("DriftInformation", {}).get("StackDriftStatus", "")),
    )
