"""What holds of every template: how stacks are named, wired and told apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from piecework.settings import Settings
from tests.infra.check.rules.rule import rule
from tests.infra.check.templates import Templates

#: What a person gives; everything else has a default or comes from another stack.
ASKED = {"Image", "Pipelines"}
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


@rule
def every_template_takes_the_names_that_the_processes_take(
    templates: Templates,
) -> Iterator[str]:
    fields = Settings.model_fields
    for name, template in templates.parsed.items():
        for parameter in ("App", "Env"):
            declared = template.get("Parameters", {}).get(parameter, {})
            (pattern,) = (
                m.pattern
                for m in fields[parameter.lower()].metadata
                if hasattr(m, "pattern")
            )
            if f"^{declared.get('AllowedPattern')}$" != pattern:
                yield f"{name}: {parameter}"


@rule
def the_longest_names_still_fit_a_bucket(templates: Templates) -> Iterator[str]:
    lengths = [
        1 + int(re.findall(r",(\d+)\}", declared["AllowedPattern"])[0])
        for name in ("App", "Env")
        for declared in [templates.parsed["data"]["Parameters"][name]]
    ]
    longest = f"{'a' * lengths[0]}-{'e' * lengths[1]}-{'1' * 12}-ap-southeast-1"
    if len(longest) > 63:
        yield longest


@rule
def no_stack_locks_another(templates: Templates) -> Iterator[str]:
    for name, template in templates.parsed.items():
        if "Fn::ImportValue" in str(template):
            yield f"{name} imports"
        for key, output in template.get("Outputs", {}).items():
            if "Export" in output:
                yield f"{name} exports {key}"


@rule
def what_a_template_asks_for_another_gives_or_a_person(
    templates: Templates,
) -> Iterator[str]:
    given = {key for t in templates.parsed.values() for key in t.get("Outputs", {})}
    for name, template in templates.parsed.items():
        for key, declared in template.get("Parameters", {}).items():
            if "Default" not in declared and key not in given | ASKED:
                yield f"{name}: {key}"


@rule
def the_network_and_the_key_are_handed_on_by_name(
    templates: Templates,
) -> Iterator[str]:
    takes = templates.parsed["service"]["Parameters"].keys()
    gives = templates.parsed["network"]["Outputs"].keys()
    if not gives <= takes:
        yield f"nobody takes {sorted(gives - takes)}"
    if "KeyArn" not in templates.parsed["data"]["Outputs"].keys() & takes:
        yield "KeyArn"


@rule
def a_parameter_of_one_name_means_one_thing(templates: Templates) -> Iterator[str]:
    first: dict[str, tuple[str, Any]] = {}
    for name, template in templates.parsed.items():
        for key, declared in template.get("Parameters", {}).items():
            meant = (declared["Type"], declared.get("Default"))
            if first.setdefault(key, meant) != meant:
                yield f"{name}: {key} is {meant}, elsewhere {first[key]}"


@rule
def every_parameter_says_what_it_is_for(templates: Templates) -> Iterator[str]:
    for name, template in templates.parsed.items():
        for key, declared in template.get("Parameters", {}).items():
            if not declared.get("Description", "").strip():
                yield f"{name}: {key}"


@rule
def no_parameter_is_a_secret(templates: Templates) -> Iterator[str]:
    for name, template in templates.parsed.items():
        for key in template.get("Parameters", {}):
            if SECRET.search(key):
                yield f"{name}: {key}"


@rule
def what_costs_money_says_whose_it_is(templates: Templates) -> Iterator[str]:
    for stack in templates.stacks():
        own = {"app": stack.parameters["App"], "env": stack.parameters["Env"]}
        for name, resource in stack.resources.items():
            if resource["Type"] in TAGGED:
                tags = tags_of(resource.get("Properties", {}))
                if not own.items() <= tags.items():
                    yield f"{stack.name}: {name}"


def tags_of(properties: dict[str, Any]) -> dict[str, str]:
    """Return the tags of a resource."""
    return {each["Key"]: each["Value"] for each in properties.get("Tags", [])}


@rule
def every_name_begins_with_whose_it_is(templates: Templates) -> Iterator[str]:
    for stack in templates.stacks():
        own = f"{stack.parameters['App']}-{stack.parameters['Env']}"
        path = f"/{stack.parameters['App']}/{stack.parameters['Env']}/"
        for name, resource in stack.resources.items():
            for key, value in resource.get("Properties", {}).items():
                if key not in NAMES or resource["Type"] == "AWS::EC2::VPCEndpoint":
                    continue
                if not str(value).startswith((own, path)):
                    yield f"{stack.name}: {name} is {value}"
