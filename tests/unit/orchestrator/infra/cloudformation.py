"""A fake CloudFormation in memory, with the calls that the commands make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from piecework.aws.endpoint import Endpoint
from piecework_orchestrator.infra.session import AwsSession

NOW = datetime(2026, 11, 22, 12, 0, 5, tzinfo=UTC)


def refused(operation: str, code: str, message: str = "no") -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": message}}
    return ClientError(answer, operation)


def change(action: str, resource: str, kind: str, **more: Any) -> dict[str, Any]:
    """Return a change in the form of DescribeChangeSet."""
    found = {"Action": action, "LogicalResourceId": resource, "ResourceType": kind}
    return {"Type": "Resource", "ResourceChange": {**found, **more}}


@dataclass
class Pages:
    """A paginator over one page."""

    page: Callable[..., dict[str, Any]]

    def paginate(self, **request: Any) -> Iterator[dict[str, Any]]:
        yield self.page(**request)


@dataclass
class CloudFormation:
    """Stacks by name, and the mutating calls in their order.

    Attributes:
        changes: Changes of the next change set; empty: no changes found.
        ends: The final status of the next operation; empty: success.
    """

    stacks: dict[str, dict[str, Any]] = field(default_factory=dict)
    templates: dict[str, str] = field(default_factory=dict)
    resources: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    changes: list[dict[str, Any]] = field(
        default_factory=lambda: [change("Add", "Thing", "AWS::SNS::Topic")]
    )
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    ends: str = ""
    failing: list[tuple[str, str, str]] = field(default_factory=list)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    proposed: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, status: str = "CREATE_COMPLETE", **facts: Any) -> None:
        """Add a stack."""
        self.stacks[name] = {
            "StackName": name,
            "StackId": f"id-{name}",
            "StackStatus": status,
            "CreationTime": NOW,
            "Parameters": [],
            **facts,
        }

    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.calls]

    def describe_stacks(self, StackName: str) -> dict[str, Any]:  # noqa: N803
        name = StackName.removeprefix("id-")
        missing = {"StackStatus": "DELETE_COMPLETE"}
        by_name = name == StackName
        found = self.stacks.get(name, missing)
        if found is missing or (by_name and found["StackStatus"] == "DELETE_COMPLETE"):
            raise refused("DescribeStacks", "ValidationError")
        return {"Stacks": [found]}

    def get_template(self, StackName: str, **_: Any) -> dict[str, Any]:  # noqa: N803
        return {"TemplateBody": self.templates.get(StackName, "")}

    def create_change_set(self, **request: Any) -> dict[str, Any]:
        self.calls.append(("propose", request))
        name = request["StackName"]
        if request["ChangeSetType"] == "CREATE":
            self.add(name, "REVIEW_IN_PROGRESS")
        self.proposed[f"cs-{name}"] = request
        return {"Id": f"cs-{name}", "StackId": f"id-{name}"}

    def describe_change_set(self, **request: Any) -> dict[str, Any]:
        if not self.changes:
            reason = "The submitted information didn't contain changes."
            return {"Status": "FAILED", "StatusReason": reason, "Changes": []}
        return {"Status": "CREATE_COMPLETE", "Changes": self.changes}

    def delete_change_set(self, **request: Any) -> None:
        self.calls.append(("discard", request["ChangeSetName"]))

    def execute_change_set(self, **request: Any) -> None:
        self.calls.append(("execute", request["ChangeSetName"]))
        asked = self.proposed[request["ChangeSetName"]]
        name, token = asked["StackName"], request["ClientRequestToken"]
        verb = asked["ChangeSetType"]
        before = {
            p["ParameterKey"]: p["ParameterValue"]
            for p in self.stacks[name]["Parameters"]
        }
        values = [
            {
                "ParameterKey": p["ParameterKey"],
                "ParameterValue": p.get("ParameterValue")
                or before.get(p["ParameterKey"], ""),
            }
            for p in asked["Parameters"]
        ]
        outputs = [
            {"OutputKey": key, "OutputValue": value}
            for key, value in self.outputs.get(name, {}).items()
        ]
        self.add(
            name,
            self.ends or f"{verb}_COMPLETE",
            Parameters=values,
            Outputs=outputs,
            Tags=asked.get("Tags", self.stacks[name].get("Tags", [])),
        )
        self.templates[name] = asked["TemplateBody"]
        for resource, status, reason in self.failing or [("Thing", "DONE", "")]:
            self.add_event(token, resource, status, reason)
        self.add_event(token, name, self.stacks[name]["StackStatus"], "")

    def set_stack_policy(self, **request: Any) -> None:
        self.calls.append(("policy", request["StackPolicyBody"]))

    def update_termination_protection(self, **request: Any) -> None:
        self.calls.append(("protect", request["EnableTerminationProtection"]))

    def delete_stack(self, **request: Any) -> None:
        name = request["StackName"].removeprefix("id-")
        self.calls.append(("delete", name))
        status = self.ends or "DELETE_COMPLETE"
        self.stacks[name]["StackStatus"] = status
        for resource, state, reason in self.failing:
            self.add_event(
                request.get("ClientRequestToken", ""), resource, state, reason
            )
        self.add_event(request.get("ClientRequestToken", ""), name, status, "")

    def add_event(self, token: str, resource: str, status: str, reason: str) -> None:
        """Add an event; the newest comes first."""
        event = {
            "EventId": f"e{len(self.events)}",
            "Timestamp": NOW,
            "ResourceStatus": status,
            "LogicalResourceId": resource,
            "ResourceType": "AWS::Some::Thing",
            "ResourceStatusReason": reason,
            "ClientRequestToken": token,
        }
        self.events.insert(0, event)

    def get_paginator(self, operation: str) -> Pages:
        if operation == "describe_stack_events":
            return Pages(lambda **_: {"StackEvents": list(self.events)})
        return Pages(self._resources)

    def _resources(self, StackName: str) -> dict[str, Any]:  # noqa: N803
        rows = self.resources.get(StackName, [])
        return {"StackResourceSummaries": rows}


@dataclass
class FakeInteraction:
    """Records reports, changes and confirmations; raises `no` to decline."""

    no: Exception | None = None
    reports: list[str] = field(default_factory=list)
    confirmed: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)

    def report(self, text: str) -> None:
        self.reports.append(text)

    def show_changes(self, stack: str, changes: Any) -> None:
        self.shown += [c.resource for c in changes]

    def confirm(self, action: str) -> None:
        self.confirmed.append(action)
        if self.no:
            raise self.no


@dataclass
class Account:
    """IAM, EC2 and Service Quotas of an account with the quotas of an old one.

    Attributes:
        roles: The names of its roles.
        free: The free addresses of each subnet, which is a /24.
        vcpus: The quotas of Fargate.
        denied: The operations that it refuses.
    """

    roles: set[str] = field(default_factory=set)
    free: int = 251
    vcpus: float = 4000.0
    denied: set[str] = field(default_factory=set)

    def get_role(self, RoleName: str) -> dict[str, Any]:  # noqa: N803
        self._check("GetRole", "AccessDenied")
        if RoleName not in self.roles:
            raise refused("GetRole", "NoSuchEntity")
        return {"Role": {"RoleName": RoleName}}

    def describe_subnets(self, SubnetIds: list[str]) -> dict[str, Any]:  # noqa: N803
        self._check("DescribeSubnets", "UnauthorizedOperation")
        subnet = {"CidrBlock": "10.0.0.0/24", "AvailableIpAddressCount": self.free}
        return {"Subnets": [subnet for _ in SubnetIds]}

    def get_service_quota(self, **_: str) -> dict[str, Any]:
        self._check("GetServiceQuota", "AccessDeniedException")
        return {"Quota": {"Value": self.vcpus}}

    def _check(self, operation: str, code: str) -> None:
        if operation in self.denied:
            raise refused(operation, code)


def session_of(cloudformation: Any, **clients: Any) -> AwsSession:
    """Return a session with fake clients."""
    services = ("iam", "ec2", "service-quotas")
    found = {**dict.fromkeys(services, Account()), **clients}
    return AwsSession(
        make_client=found.__getitem__,
        cloudformation=cloudformation,
        account="111122223333",
        region="eu-central-1",
        endpoint=Endpoint("", "aws", "eu-central-1"),
        sleep=lambda _: None,
    )
