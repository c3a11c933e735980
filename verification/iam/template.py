"""Our templates as CloudFormation would resolve them, for one set of parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

INFRA = Path(__file__).parents[2] / "infra"
ACCOUNT, REGION = "000000000000", "us-east-1"
PSEUDO = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Region": REGION,
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
}
NO_VALUE = object()
PLACE = re.compile(r"\$\{([^!}][^}]*)\}")
#: How a resource's `!Ref` and `Arn` follow from the name that it is given.
NAMED = {
    "AWS::SQS::Queue": ("QueueName", "arn:aws:sqs:{region}:{account}:{name}"),
    "AWS::S3::Bucket": ("BucketName", "arn:aws:s3:::{name}"),
    "AWS::IAM::Role": ("RoleName", "arn:aws:iam::{account}:role/{name}"),
    "AWS::IAM::ManagedPolicy": (
        "ManagedPolicyName",
        "arn:aws:iam::{account}:policy/{name}",
    ),
}


@cache
def read(name: str) -> Mapping[str, Any]:
    """Return a template of ours as it is written."""
    text = (INFRA / f"{name}.yaml").read_text("utf-8")
    document: Mapping[str, Any] = yaml.load(text, Loader=Loader)  # noqa: S506 -- a safe one with CloudFormation's tags
    return document


def resources(
    template: Mapping[str, Any], **parameters: str
) -> dict[str, dict[str, Any]]:
    """Return the resources that there would be, by their logical names."""
    given = {
        name: parameters.get(name, declared.get("Default"))
        for name, declared in template["Parameters"].items()
    }
    if unknown := set(parameters) - set(given):
        message = f"no such parameters: {sorted(unknown)}"
        raise ValueError(message)
    return Resolver(template, lists(template, given)).resources()


def lists(template: Mapping[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters, those that are lists cut at their commas."""
    kinds = {name: p["Type"] for name, p in template["Parameters"].items()}
    return {
        name: str(value).split(",") if "List" in kinds[name] else value
        for name, value in given.items()
    }


@dataclass(frozen=True, slots=True)
class Resolver:
    """A template with its parameters."""

    template: Mapping[str, Any]
    parameters: Mapping[str, Any]

    def resources(self) -> dict[str, dict[str, Any]]:
        """Return what its conditions leave, without a function in it."""
        found = {}
        for name, resource in self.template["Resources"].items():
            if "Condition" in resource and not self.condition(resource["Condition"]):
                continue
            found[name] = {
                "Type": resource["Type"],
                "Properties": self.value(resource.get("Properties", {})),
            }
        return found

    def condition(self, name: str) -> bool:
        """Say whether a condition of the template holds."""
        return bool(self.value(self.template["Conditions"][name]))

    def value(self, node: Any) -> Any:
        """Return a value with its functions worked out."""
        if isinstance(node, list):
            found = [self.value(one) for one in node]
            return [one for one in found if one is not NO_VALUE]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            ((name, argument),) = node.items()
            if name in {"Ref", "Condition"} or name.startswith("Fn::"):
                return self.call(name.removeprefix("Fn::"), argument)
        pairs = ((key, self.value(one)) for key, one in node.items())
        return {key: one for key, one in pairs if one is not NO_VALUE}

    def call(self, name: str, argument: Any) -> Any:
        """Return what a function comes to."""
        functions = {
            "Condition": self.condition,
            "GetAtt": self.attribute,
            "If": self.chosen,
            "Ref": self.ref,
            "Sub": self.sub,
        }
        if name in functions:
            return functions[name](argument)
        return plain(name, self.value(argument))

    def chosen(self, argument: Any) -> Any:
        """Return the value that a condition chooses."""
        name, then, otherwise = argument
        return self.value(then if self.condition(name) else otherwise)

    def ref(self, name: str) -> Any:
        """Return what a parameter or a resource is referred to by."""
        if name == "AWS::NoValue":
            return NO_VALUE
        if name in PSEUDO:
            return PSEUDO[name]
        if name in self.parameters:
            return self.parameters[name]
        kind = self.template["Resources"][name]["Type"]
        referred_by_arn = kind == "AWS::IAM::ManagedPolicy"
        return self.arn(name) if referred_by_arn else self.named(name)

    def attribute(self, path: str) -> str:
        """Return an attribute of a resource; only its ARN follows from its name."""
        name, _, wanted = path.partition(".")
        return self.arn(name) if wanted == "Arn" else path

    def named(self, name: str) -> str:
        """Return the name that a resource is given; its logical one without."""
        resource = self.template["Resources"][name]
        given, _ = NAMED.get(resource["Type"], ("", ""))
        return str(self.value(resource["Properties"][given])) if given else name

    def arn(self, name: str) -> str:
        """Return the ARN of a resource."""
        kind = self.template["Resources"][name]["Type"]
        _, form = NAMED.get(kind, ("", "arn:aws:other:{region}:{account}:{name}"))
        return form.format(region=REGION, account=ACCOUNT, name=self.named(name))

    def sub(self, argument: Any) -> str:
        """Return a text with the values in their places; those put in stay as is."""
        text, own = argument if isinstance(argument, list) else (argument, {})

        def put(found: re.Match[str]) -> str:
            name = found[1]
            if name in own:
                return str(self.value(own[name]))
            return str(self.attribute(name) if "." in name else self.ref(name))

        return PLACE.sub(put, text).replace("${!", "${")


def plain(name: str, given: Any) -> Any:
    """Return what a function of plain values comes to.

    Raises:
        ValueError: For one that is not known here.
    """
    match name:
        case "Equals":
            return given[0] == given[1]
        case "Not":
            return not given[0]
        case "And":
            return all(given)
        case "Or":
            return any(given)
        case "Join":
            return given[0].join(given[1])
        case _:
            message = f"{name} is not worked out here"
            raise ValueError(message)


class Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short forms."""


def short_form(loader: Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    """Return a short form as the function that it stands for."""
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)  # type: ignore[arg-type]
    return {suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}": value}


Loader.add_multi_constructor("!", short_form)
