"""What CloudFormation would make of a template and its parameters.

It knows what a template says, and no service. It makes a resource's ARN of its name,
and takes the logical name for what AWS would choose.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.infra.check.samples import ACCOUNT, REGION

PSEUDO = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::StackName": "a-stack",
    "AWS::URLSuffix": "amazonaws.com",
}
NOTHING = object()  # AWS::NoValue
#: The property that is a resource's name, and the form of its ARN.
ARNS = {
    "AWS::DynamoDB::Table": ("TableName", "dynamodb:{region}:{account}:table/{name}"),
    "AWS::IAM::ManagedPolicy": ("ManagedPolicyName", "iam::{account}:policy/{name}"),
    "AWS::IAM::Role": ("RoleName", "iam::{account}:role/{name}"),
    "AWS::Logs::LogGroup": ("LogGroupName", "logs:{region}:{account}:log-group:{name}"),
    "AWS::S3::Bucket": ("BucketName", "s3:::{name}"),
    "AWS::SNS::Topic": ("TopicName", "sns:{region}:{account}:{name}"),
    "AWS::SQS::Queue": ("QueueName", "sqs:{region}:{account}:{name}"),
}


@dataclass(frozen=True, slots=True)
class Stack:
    """One template under one choice of parameters."""

    name: str
    parameters: dict[str, Any]
    resources: dict[str, dict[str, Any]]
    outputs: dict[str, Any]

    def of(self, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the logical name and the properties of each resource of a type."""
        for name, resource in self.resources.items():
            if resource["Type"] == kind:
                yield name, resource.get("Properties", {})

    def properties(self, name: str) -> dict[str, Any]:
        """Return the properties of one resource; of one that is missing, none."""
        found: dict[str, Any] = self.resources.get(name, {}).get("Properties", {})
        return found

    def as_template(self) -> dict[str, Any]:
        """Return it as a template without a choice, for tools that know none."""
        return {"AWSTemplateFormatVersion": "2010-09-09", "Resources": self.resources}


def render(
    name: str,
    template: dict[str, Any],
    given: dict[str, Any],
    known: Mapping[str, str] = PSEUDO,
) -> Stack:
    """Resolve every function of a template.

    `known` are AWS's own names, and the physical ids of resources where they exist.
    """
    scope = _Scope(template, given, known)
    kept = {
        key: {k: scope.value(v) for k, v in resource.items() if k != "Condition"}
        for key, resource in template["Resources"].items()
        if scope.holds(resource.get("Condition"))
    }
    outputs = {
        key: scope.value(output["Value"])
        for key, output in template.get("Outputs", {}).items()
        if scope.holds(output.get("Condition"))
    }
    return Stack(name, given, kept, outputs)


class _Scope:
    """One template's names and what they stand for."""

    def __init__(
        self,
        template: dict[str, Any],
        given: dict[str, Any],
        known: Mapping[str, str],
    ) -> None:
        self.template = template
        self.given = given
        self.known = known
        self.region = known["AWS::Region"]
        self.functions: dict[str, Callable[[Any], Any]] = {
            "Condition": self.holds,
            "Ref": self._ref,
            "Fn::And": lambda all_of: all(map(self.value, all_of)),
            "Fn::Cidr": self._cidr,
            "Fn::Equals": self._equals,
            "Fn::FindInMap": self._find_in_map,
            "Fn::GetAZs": lambda _: [f"{self.region}{zone}" for zone in "abc"],
            "Fn::GetAtt": self._get_att,
            "Fn::If": self._if,
            "Fn::Join": self._join,
            "Fn::Not": lambda one: not self.value(one[0]),
            "Fn::Or": lambda any_of: any(map(self.value, any_of)),
            "Fn::Select": lambda pair: self.value(pair[1])[int(self.value(pair[0]))],
            "Fn::Split": lambda pair: self.value(pair[1]).split(pair[0]),
            "Fn::Sub": self._sub,
        }

    def holds(self, condition: str | None) -> bool:
        """Return whether a condition holds; none always does."""
        if condition is None:
            return True
        return bool(self.value(self.template["Conditions"][condition]))

    def value(self, node: Any) -> Any:
        """Resolve a node, and all that is in it."""
        if isinstance(node, list):
            return [v for v in map(self.value, node) if v is not NOTHING]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            ((key, inside),) = node.items()
            # The `Condition` of a policy's statement is a mapping, no name.
            if key in self.functions and not (
                key == "Condition" and isinstance(inside, dict)
            ):
                return self.functions[key](inside)
        resolved = {key: self.value(inside) for key, inside in node.items()}
        return {key: v for key, v in resolved.items() if v is not NOTHING}

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return NOTHING
        if name in self.given:
            return self.given[name]
        if name in self.known:
            return self.known[name]
        if self.template["Resources"][name]["Type"] == "AWS::IAM::ManagedPolicy":
            return self._get_att([name, "Arn"])
        return self._named(name)

    def _named(self, name: str) -> Any:
        """Return the name of a resource that does not exist."""
        resource = self.template["Resources"][name]
        if resource["Type"] in ARNS:
            named = ARNS[resource["Type"]][0]
            return self.value(resource["Properties"].get(named, name))
        return name

    def _get_att(self, path: str | list[str]) -> str:
        name, attribute = path.split(".", 1) if isinstance(path, str) else path
        kind = self.template["Resources"][name]["Type"]
        if attribute == "Arn" and kind in ARNS:
            account = self.known["AWS::AccountId"]
            return "arn:aws:" + ARNS[kind][1].format(
                region=self.region, account=account, name=self._named(name)
            )
        return f"{name}.{attribute}"

    def _sub(self, given: str | list[Any]) -> str:
        text, extra = (given, {}) if isinstance(given, str) else given

        def put(match: re.Match[str]) -> str:
            name = match.group(1)
            if name.startswith("!"):
                return "${" + name[1:] + "}"
            if name in extra:
                return str(self.value(extra[name]))
            return str(self._get_att(name) if "." in name else self._ref(name))

        return re.sub(r"\$\{([^}]+)\}", put, text)

    def _if(self, choice: list[Any]) -> Any:
        condition, yes, no = choice
        return self.value(yes if self.holds(condition) else no)

    def _equals(self, pair: list[Any]) -> bool:
        left, right = map(self.value, pair)
        return str(left) == str(right)

    def _join(self, pair: list[Any]) -> str:
        return str(pair[0]).join(map(str, self.value(pair[1])))

    def _find_in_map(self, path: list[Any]) -> Any:
        first, second, third = map(self.value, path)
        return self.template["Mappings"][first][second][third]

    def _cidr(self, given: list[Any]) -> list[str]:
        block, count, bits = map(self.value, given)
        blocks = ipaddress.ip_network(block).subnets(new_prefix=32 - int(bits))
        return [str(next(blocks)) for _ in range(int(count))]
