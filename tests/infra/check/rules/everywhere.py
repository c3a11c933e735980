"""What holds of every template: how stacks are named, wired and told apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

from piecework.settings import Settings
from tests.infra.check.render import Stack
from tests.infra.check.rules.rule import Rule, own, path
from tests.infra.check.templates import Templates

#: What a person gives; everything else has a default or comes from another stack.
ASKED = {"Image", "Owner", "Pipelines", "Runbook"}
#: Properties that are a resource's name; an endpoint has one of another kind.
NAMES = {
    "AlarmName",
    "BucketName",
    "ClusterName",
    "DashboardName",
    "Family",
    "LogGroupName",
    "ManagedPolicyName",
    "QueueName",
    "RoleName",
    "ServiceName",
    "TableName",
    "TopicName",
}
#: Types that say who pays, by having tags.
TAGGED = {
    "AWS::DynamoDB::Table",
    "AWS::EC2::EIP",
    "AWS::EC2::NatGateway",
    "AWS::EC2::VPC",
    "AWS::EC2::VPCEndpoint",
    "AWS::ECS::Cluster",
    "AWS::ECS::Service",
    "AWS::ECS::TaskDefinition",
    "AWS::IAM::Role",
    "AWS::KMS::Key",
    "AWS::Logs::LogGroup",
    "AWS::S3::Bucket",
    "AWS::SNS::Topic",
    "AWS::SQS::Queue",
}
SECRET = re.compile(r"password|token|secret$", re.IGNORECASE)


def parameters(holds: Callable[[str, dict[str, Any]], object]) -> Rule:
    """Return the rule that something holds of each parameter of each template."""

    def check(templates: Templates) -> Iterator[str]:
        for name, template in templates.parsed.items():
            for key, declared in template.get("Parameters", {}).items():
                if not holds(key, declared):
                    yield f"{name}: {key}"

    return check


def resources(holds: Callable[[dict[str, Any], Stack], object]) -> Rule:
    """Return the rule that something holds of each resource in every variant."""

    def check(templates: Templates) -> Iterator[str]:
        for stack in templates.stacks():
            for name, resource in stack.resources.items():
                if not holds(resource, stack):
                    yield f"{stack.name}: {name}"

    return check


def same_patterns(templates: Templates) -> Iterator[str]:
    patterns = {each.name: each.metadata.get("pattern") for each in fields(Settings)}
    for name, template in templates.parsed.items():
        for parameter in ("App", "Env"):
            pattern = patterns[parameter.lower()]
            declared = template.get("Parameters", {}).get(parameter, {})
            if f"^{declared.get('AllowedPattern')}$" != pattern:
                yield f"{name}: {parameter}"


def the_longest_bucket(templates: Templates) -> Iterator[str]:
    declared = templates.parsed["data"]["Parameters"]
    app, env = (
        1 + int(re.findall(r",(\d+)\}", declared[name]["AllowedPattern"])[0])
        for name in ("App", "Env")
    )
    longest = f"{'a' * app}-{'e' * env}-{'1' * 12}-ap-southeast-1"
    if len(longest) > 63:
        yield longest


def no_stack_locks_another(templates: Templates) -> Iterator[str]:
    for name, template in templates.parsed.items():
        exported = [o for o in template.get("Outputs", {}).values() if "Export" in o]
        if "Fn::ImportValue" in str(template) or exported:
            yield name


def asked_is_given(templates: Templates) -> Iterator[str]:
    given = {key for t in templates.parsed.values() for key in t.get("Outputs", {})}
    rule = parameters(lambda key, each: "Default" in each or key in given | ASKED)
    yield from rule(templates)


def passed_by_name(templates: Templates) -> Iterator[str]:
    takes = templates.parsed["service"]["Parameters"].keys()
    yield from templates.parsed["network"]["Outputs"].keys() - takes
    yield from {"KeyArn"} - (templates.parsed["data"]["Outputs"].keys() & takes)


def one_meaning(templates: Templates) -> Iterator[str]:
    first: dict[str, tuple[str, Any]] = {}

    def as_before(key: str, declared: dict[str, Any]) -> bool:
        meant = (declared["Type"], declared.get("Default"))
        return first.setdefault(key, meant) == meant

    yield from parameters(as_before)(templates)


def tagged(resource: dict[str, Any], stack: Stack) -> bool:
    tags = resource.get("Properties", {}).get("Tags", [])
    said = {each["Key"]: each["Value"] for each in tags}
    whose = {"app": stack.parameters["App"], "env": stack.parameters["Env"]}
    return resource["Type"] not in TAGGED or whose.items() <= said.items()


def named(resource: dict[str, Any], stack: Stack) -> bool:
    return resource["Type"] == "AWS::EC2::VPCEndpoint" or all(
        str(value).startswith((own(stack), f"{path(stack)}/"))
        for key, value in resource.get("Properties", {}).items()
        if key in NAMES
    )


RULES: dict[str, Rule] = {
    "templates and processes accept the same names": same_patterns,
    "the longest names still fit a bucket": the_longest_bucket,
    "no stack locks another": no_stack_locks_another,
    "another template or an operator gives each parameter": asked_is_given,
    "the network and the key are passed by name": passed_by_name,
    "a parameter of one name means one thing": one_meaning,
    "every parameter says what it is for": parameters(
        lambda _, declared: declared.get("Description", "").strip()
    ),
    "no parameter is a secret": parameters(lambda key, _: not SECRET.search(key)),
    "what costs money has tags": resources(tagged),
    "every name begins with its deployment": resources(named),
}
