"""One stack, as CloudFormation has it: read, waited for, put in place."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.infra.refusals import explained
from orchestrator.infra.standing import over
from orchestrator.infra.templates import Template

#: Seconds between two looks at what CloudFormation does.
POLL_S = 2.0


@dataclass(frozen=True, slots=True)
class Found:
    """A stack that is there."""

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
    """A stack by its name, and the means to ask for it.

    Attributes:
        pause: Waits for some seconds.
    """

    client: Any
    name: str
    pause: Callable[[float], object] = field(default=time.sleep)
    poll_s: float = POLL_S

    def find(self, stack_id: str = "") -> Found | None:
        """Return the stack, or None; one that is deleted is found by its id alone."""
        from botocore.exceptions import ClientError

        with explained(self.name):
            try:
                reply = self.client.describe_stacks(StackName=stack_id or self.name)
            except ClientError as error:
                # CloudFormation has no code of its own for "no such stack".
                if error.response["Error"]["Code"] == "ValidationError":
                    return None
                raise
        return _read(reply["Stacks"][0])

    def template(self) -> str:
        """Return the template as it was handed in."""
        with explained(self.name):
            reply = self.client.get_template(
                StackName=self.name, TemplateStage="Original"
            )
        body = reply["TemplateBody"]
        # The SDK has parsed one that was handed in as JSON.
        return body if isinstance(body, str) else json.dumps(body)

    def resources(self) -> list[dict[str, str]]:
        """Return the resources that it has: logical id, physical id and type."""
        with explained(self.name):
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

    def put(
        self, template: Template, parameters: Mapping[str, str], *, new: bool
    ) -> None:
        """Create or update it unseen: for where nobody looks at the changes."""
        request = {
            "StackName": self.name,
            "TemplateBody": template.text,
            "Parameters": [
                {"ParameterKey": name, "ParameterValue": value}
                for name, value in parameters.items()
            ],
        }
        with explained(self.name):
            if new:
                self.client.create_stack(**request)
            else:
                self.client.update_stack(**request)

    def settled(self, looks: int) -> Found | None:
        """Wait until nothing is under way; None after so many looks in vain."""
        for _ in range(looks):
            found = self.find()
            if found is not None and over(found.status):
                return found
            self.pause(self.poll_s)
        return None


def _read(reply: Mapping[str, Any]) -> Found:
    changed = reply.get("LastUpdatedTime") or reply.get("CreationTime")
    return Found(
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
