"""Deploy one stack to the embedded emulator, without the types that it refuses."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from piecework.aws.endpoint import Emulator
from piecework_orchestrator.embedded.deploy import make_client
from tests.infra.check.body import flat, without

#: How it refuses a type, before it makes anything, and a property, while it does.
UNKNOWN_TYPE = re.compile("Unrecognized resource types")
UNKNOWN_PROPERTY = re.compile("is not supported")
NAMED = re.compile(r"(AWS::\w+::\w+)(?: Properties(\.\w+))?")
PATIENCE_S = 60.0


@dataclass(slots=True)
class Found:
    """What the emulator took, and what it refused."""

    deployed: Counter[str] = field(default_factory=Counter)
    #: Types and `type.Property` that it does not know.
    refused: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Clients:
    """The clients of one emulator, one for each service."""

    emulator: Emulator
    opened: dict[str, Any] = field(default_factory=dict)

    def __call__(self, service: str) -> Any:
        """Return the client of a service."""
        if service not in self.opened:
            self.opened[service] = make_client(service, self.emulator)
        return self.opened[service]

    def close(self) -> None:
        """Close them all."""
        for each in self.opened.values():
            each.close()


@dataclass(slots=True)
class Trial:
    """One stack in one environment."""

    client: Clients
    env: str
    name: str
    template: dict[str, Any]
    given: dict[str, Any]
    found: Found

    def run(self) -> dict[str, str]:
        """Deploy what is taken of it, count that, and return its outputs."""
        body = self.template
        while refused := self.refused_of(body):
            self.found.refused |= refused
            body = without(body, refused)
        pages = self.client("cloudformation").get_paginator("list_stack_resources")
        for page in pages.paginate(StackName=self.stack):
            for each in page["StackResourceSummaries"]:
                self.found.deployed[each["ResourceType"]] += 1
        outputs = self.described().get("Outputs", [])
        return {each["OutputKey"]: each["OutputValue"] for each in outputs}

    @property
    def stack(self) -> str:
        """Return the stack's name."""
        return f"{self.given['App']}-{self.env}-{self.name}"

    def refused_of(self, body: dict[str, Any]) -> set[str]:
        """Create the stack; return the types or properties that are not known."""
        from botocore.exceptions import ClientError

        try:
            self.create(body)
        except ClientError as error:
            return self.not_known(UNKNOWN_TYPE, str(error))
        if self.completed() == "CREATE_COMPLETE":
            return set()
        said = self.why()
        self.client("cloudformation").delete_stack(StackName=self.stack)
        return self.not_known(UNKNOWN_PROPERTY, said)

    def not_known(self, said: re.Pattern[str], why: str) -> set[str]:
        """Return what is named as not known; whatever else went wrong is an error."""
        if not said.search(why):
            raise AssertionError(f"{self.stack}: {why}")
        return {"".join(found) for found in NAMED.findall(why)}

    def create(self, body: dict[str, Any]) -> None:
        """Ask for the stack."""
        self.client("cloudformation").create_stack(
            StackName=self.stack,
            TemplateBody=json.dumps(body),
            Capabilities=["CAPABILITY_NAMED_IAM"],
            Parameters=[
                {"ParameterKey": key, "ParameterValue": flat(value)}
                for key, value in self.given.items()
            ],
        )

    def completed(self) -> str:
        """Wait for the stack; return its last state."""
        until = time.monotonic() + PATIENCE_S
        while (status := str(self.described()["StackStatus"])).endswith("_IN_PROGRESS"):
            assert time.monotonic() < until, f"{self.stack}: {status}"
            time.sleep(0.02)
        return status

    def described(self) -> dict[str, Any]:
        """Return what CloudFormation says of the stack."""
        asked = self.client("cloudformation").describe_stacks
        (stack,) = asked(StackName=self.stack)["Stacks"]
        return dict(stack)

    def why(self) -> str:
        """Return what the emulator says of the first resource that failed."""
        asked = self.client("cloudformation").describe_stack_events
        failed = [
            f"{event['LogicalResourceId']} {event.get('ResourceStatusReason')}"
            for event in asked(StackName=self.stack)["StackEvents"]
            if event["ResourceStatus"].endswith("FAILED")
        ]
        return failed[-1] if failed else ""
