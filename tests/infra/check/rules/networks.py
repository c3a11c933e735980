"""Networks: nobody calls in, tasks call out over TLS, AWS is reached privately."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.infra.check.render import Stack
from tests.infra.check.rules.rule import rule
from tests.infra.check.samples import REGION
from tests.infra.check.templates import Templates

TLS = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443}
ANYWHERE = "0.0.0.0/0"
CORE = {"sqs", "logs", "ecr.api", "ecr.dkr", "sts"}
CHOSEN = {
    "KmsEndpoint": "kms",
    "SecretsEndpoint": "secretsmanager",
    "ParametersEndpoint": "ssm",
    "BedrockEndpoint": "bedrock-runtime",
}


def groups(templates: Templates) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every security group of every variant."""
    for stack in templates.stacks():
        for name, group in stack.of("AWS::EC2::SecurityGroup"):
            yield f"{stack.name}: {name}", group


def private_subnets(stack: Stack) -> set[str]:
    """Return the subnets without a route to an internet gateway."""
    open_tables = {
        route["RouteTableId"]
        for _, route in stack.of("AWS::EC2::Route")
        if "GatewayId" in route
    }
    return {
        each["SubnetId"]
        for _, each in stack.of("AWS::EC2::SubnetRouteTableAssociation")
        if each["RouteTableId"] not in open_tables
    }


def tables_of(stack: Stack, subnets: set[str]) -> set[str]:
    """Return the route tables of subnets."""
    return {
        each["RouteTableId"]
        for _, each in stack.of("AWS::EC2::SubnetRouteTableAssociation")
        if each["SubnetId"] in subnets
    }


def task_subnets(stack: Stack) -> set[str]:
    """Return the subnets that tasks are put into."""
    return set(stack.outputs["SubnetIds"].split(","))


@rule
def nobody_calls_in_but_our_tasks(templates: Templates) -> Iterator[str]:
    for name, group in groups(templates):
        for way in group.get("SecurityGroupIngress", []):
            if not (TLS.items() <= way.items() and "SourceSecurityGroupId" in way):
                yield f"{name}: {way}"


@rule
def what_calls_out_does_so_over_tls(templates: Templates) -> Iterator[str]:
    for name, group in groups(templates):
        ways = group.get("SecurityGroupEgress", [])
        if not ways:
            yield f"{name} may reach everything: it says nothing"
        for way in ways:
            if not TLS.items() <= way.items():
                yield f"{name}: {way}"


@rule
def tasks_are_in_two_zones(templates: Templates) -> Iterator[str]:
    for stack in templates.stacks("network"):
        zones = {
            stack.properties(subnet)["AvailabilityZone"]
            for subnet in task_subnets(stack)
        }
        if len(zones) < 2:
            yield f"{stack.parameters['Egress']}: {zones}"


@rule
def no_subnet_gives_out_public_addresses_by_itself(
    templates: Templates,
) -> Iterator[str]:
    for stack in templates.stacks():
        for name, subnet in stack.of("AWS::EC2::Subnet"):
            if subnet.get("MapPublicIpOnLaunch"):
                yield name


@rule
def a_task_has_a_public_address_only_where_it_was_asked_for(
    templates: Templates,
) -> Iterator[str]:
    for stack in templates.stacks("network"):
        asked = stack.parameters["Egress"] == "public"
        private = task_subnets(stack) <= private_subnets(stack)
        given = stack.outputs["AssignPublicIp"] == "ENABLED"
        if private is asked or given is not asked:
            yield stack.parameters["Egress"]


@rule
def there_is_the_way_out_that_was_asked_for(templates: Templates) -> Iterator[str]:
    for stack in templates.stacks("network"):
        ways = {
            route["RouteTableId"]: "nat" if "NatGatewayId" in route else "public"
            for _, route in stack.of("AWS::EC2::Route")
            if route["DestinationCidrBlock"] == ANYWHERE
        }
        found = {
            ways.get(table, "none") for table in tables_of(stack, task_subnets(stack))
        }
        if found != {stack.parameters["Egress"]}:
            yield f"{stack.parameters['Egress']}: {found}"


@rule
def a_gateway_for_each_zone_is_in_that_zone(templates: Templates) -> Iterator[str]:
    for stack in templates.stacks("network"):
        gateways = dict(stack.of("AWS::EC2::NatGateway"))
        zones = {
            stack.properties(gateway["SubnetId"])["AvailabilityZone"]
            for gateway in gateways.values()
        }
        wanted = int(stack.parameters["NatGateways"])
        nat = stack.parameters["Egress"] == "nat"
        if len(zones) != len(gateways) or len(zones) != (wanted if nat else 0):
            yield f"{stack.parameters['Egress']}: {len(gateways)} in {len(zones)} zones"


@rule
def objects_and_records_are_reached_without_a_fee(
    templates: Templates,
) -> Iterator[str]:
    for stack in templates.stacks("network"):
        gateways = {
            endpoint["ServiceName"]: set(endpoint["RouteTableIds"])
            for _, endpoint in stack.of("AWS::EC2::VPCEndpoint")
            if endpoint["VpcEndpointType"] == "Gateway"
        }
        needed = tables_of(stack, task_subnets(stack))
        for service in ("s3", "dynamodb"):
            if not needed <= gateways.get(f"com.amazonaws.{REGION}.{service}", set()):
                yield f"{stack.parameters['Egress']}: {service}"


@rule
def without_a_way_out_every_service_has_an_endpoint(
    templates: Templates,
) -> Iterator[str]:
    for stack in templates.stacks("network"):
        found = {
            endpoint["ServiceName"].removeprefix(f"com.amazonaws.{REGION}.")
            for _, endpoint in stack.of("AWS::EC2::VPCEndpoint")
            if endpoint["VpcEndpointType"] == "Interface"
        }
        given = stack.parameters
        core = given["Egress"] == "none" or given["Endpoints"] == "always"
        chosen = {service for name, service in CHOSEN.items() if given[name] == "true"}
        if found != (CORE if core else set()) | chosen:
            yield f"{given['Egress']}: {sorted(found)}"


@rule
def an_endpoint_answers_to_the_name_of_its_service_in_both_zones(
    templates: Templates,
) -> Iterator[str]:
    for stack in templates.stacks("network"):
        for name, endpoint in stack.of("AWS::EC2::VPCEndpoint"):
            if endpoint["VpcEndpointType"] != "Interface":
                continue
            private = set(endpoint["SubnetIds"]) == private_subnets(stack)
            if not private or endpoint.get("PrivateDnsEnabled") is not True:
                yield name
