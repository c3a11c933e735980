"""Deploy to the embedded emulator what it takes, which shows that the stacks fit.

It refuses what it does not know. The check leaves that out, with all references to it.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from piecework.aws.endpoint import Emulator
from piecework_orchestrator.embedded.deploy import make_client
from tests.infra.check.body import flat, parameters, with_numbers, without
from tests.infra.check.samples import GIVEN
from tests.infra.check.templates import Templates

SERVICES = "cloudformation,cloudwatch,dynamodb,ec2,ecs,iam,kms,logs,s3,sns,sqs,sts"
ORDER = (
    "data",
    "network",
    "roles",
    "deployer",
    "service",
    "scaling",
    "alarms",
    "triggers",
)
#: What stacks are given: nothing that has a default, and everything that can be given.
ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "given": {
        **GIVEN,
        "Encryption": "customer",
        "Egress": "nat",
        "Endpoints": "always",
        "KmsEndpoint": "true",
        "SecretsEndpoint": "true",
        "ParametersEndpoint": "true",
        "BedrockEndpoint": "true",
    },
}
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


def try_out(emulator: Emulator, templates: Templates) -> Found:
    """Deploy every stack of every environment; return what was found."""
    found, cloudformation = Found(), make_client("cloudformation", emulator)
    for env, choices in ENVIRONMENTS.items():
        outputs: dict[str, str] = {}
        for name in (name for name in ORDER if name in templates.parsed):
            given = parameters(templates.parsed[name], env, {**choices, **outputs})
            body = with_numbers(templates.parsed[name], given)
            stack = f"{given['App']}-{env}-{name}"
            outputs |= Trial(cloudformation, stack, given, found).run(body)
    cloudformation.close()
    return found


@dataclass(slots=True)
class Trial:
    """One stack in one environment."""

    cloudformation: Any
    stack: str
    given: dict[str, Any]
    found: Found

    def run(self, body: dict[str, Any]) -> dict[str, str]:
        """Deploy what is taken of it, count that, and return its outputs."""
        while refused := self.refused_of(body):
            self.found.refused |= refused
            body = without(body, refused)
        pages = self.cloudformation.get_paginator("list_stack_resources")
        for page in pages.paginate(StackName=self.stack):
            for each in page["StackResourceSummaries"]:
                self.found.deployed[each["ResourceType"]] += 1
        outputs = self.described().get("Outputs", [])
        return {each["OutputKey"]: each["OutputValue"] for each in outputs}

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
        self.cloudformation.delete_stack(StackName=self.stack)
        return self.not_known(UNKNOWN_PROPERTY, said)

    def not_known(self, said: re.Pattern[str], why: str) -> set[str]:
        """Return what is named as not known; whatever else went wrong is an error."""
        if not said.search(why):
            raise AssertionError(f"{self.stack}: {why}")
        return {"".join(found) for found in NAMED.findall(why)}

    def create(self, body: dict[str, Any]) -> None:
        """Ask for the stack."""
        self.cloudformation.create_stack(
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
        asked = self.cloudformation.describe_stacks
        (stack,) = asked(StackName=self.stack)["Stacks"]
        return dict(stack)

    def why(self) -> str:
        """Return what the emulator says of the first resource that failed."""
        asked = self.cloudformation.describe_stack_events
        failed = [
            f"{event['LogicalResourceId']} {event.get('ResourceStatusReason')}"
            for event in asked(StackName=self.stack)["StackEvents"]
            if event["ResourceStatus"].endswith("FAILED")
        ]
        return failed[-1] if failed else ""
