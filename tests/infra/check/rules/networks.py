"""Networks: no process calls in, tasks call out over TLS, AWS is reached privately."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import ip_network

from piecework_orchestrator.infra.look_ahead import (
    GENERATIONS,
    KEPT_BY_AWS,
    RECONCILERS,
)
from tests.infra.check.render import Stack
from tests.infra.check.rules.rule import Rule, all_of, every, settings
from tests.infra.check.samples import REGION
from tests.infra.check.templates import Templates

GROUP = "AWS::EC2::SecurityGroup"
ROUTES = "AWS::EC2::SubnetRouteTableAssociation"
TLS = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443}.items()
CORE = {"sqs", "logs", "ecr.api", "ecr.dkr", "sts"}
CHOSEN = {
    "KmsEndpoint": "kms",
    "SecretsEndpoint": "secretsmanager",
    "ParametersEndpoint": "ssm",
    "BedrockEndpoint": "bedrock-runtime",
}


def network(holds: Callable[[Stack], object]) -> Rule:
    """Return the rule that something holds of the network in every variant."""

    def check(templates: Templates) -> Iterator[str]:
        for stack in templates.stacks("network"):
            if not holds(stack):
                yield f"Egress {stack.parameters['Egress']}"

    return check


def private_subnets(stack: Stack) -> set[str]:
    """Return the subnets without a route to an internet gateway."""
    routes = (route for _, route in stack.of("AWS::EC2::Route"))
    opened = {route["RouteTableId"] for route in routes if "GatewayId" in route}
    ties = (each for _, each in stack.of(ROUTES))
    return {each["SubnetId"] for each in ties if each["RouteTableId"] not in opened}


def task_subnets(stack: Stack) -> set[str]:
    """Return the subnets that tasks are put into."""
    return set(stack.outputs["SubnetIds"].split(","))


def task_tables(stack: Stack) -> set[str]:
    """Return the route tables of the subnets of tasks."""
    ties = (each for _, each in stack.of(ROUTES))
    subnets = task_subnets(stack)
    return {each["RouteTableId"] for each in ties if each["SubnetId"] in subnets}


def zone(stack: Stack, subnet: str) -> str:
    return str(stack.properties(subnet)["AvailabilityZone"])


def public_by_choice(stack: Stack) -> bool:
    asked = stack.parameters["Egress"] == "public"
    private = task_subnets(stack) <= private_subnets(stack)
    return private is not asked and asked is (
        stack.outputs["AssignPublicIp"] == "ENABLED"
    )


def addresses(templates: Templates) -> Iterator[str]:
    """Yield the networks without an address for each worker of an update."""
    most = templates.parsed["scaling"]["Parameters"]["MaxWorkers"]["MaxValue"]
    needed = GENERATIONS * (most + RECONCILERS)
    for stack in templates.stacks("network"):
        subnets = [stack.properties(name) for name in task_subnets(stack)]
        found = sum(
            ip_network(subnet["CidrBlock"]).num_addresses - KEPT_BY_AWS
            for subnet in subnets
        )
        # Private endpoints, and a gateway, are in the same subnets.
        found -= len(subnets) * (len(CORE) + len(CHOSEN)) + len(subnets)
        if found < needed:
            yield f"Cidr {stack.parameters['Cidr']}: {found} of {needed} addresses"


def internet_route(stack: Stack) -> bool:
    ways = {
        route["RouteTableId"]: "nat" if "NatGatewayId" in route else "public"
        for _, route in stack.of("AWS::EC2::Route")
        if route["DestinationCidrBlock"] == "0.0.0.0/0"
    }
    found = {ways.get(table, "none") for table in task_tables(stack)}
    return found == {stack.parameters["Egress"]}


def gateways_by_zone(stack: Stack) -> bool:
    gateways = [gateway for _, gateway in stack.of("AWS::EC2::NatGateway")]
    zones = {zone(stack, gateway["SubnetId"]) for gateway in gateways}
    nat = stack.parameters["Egress"] == "nat"
    wanted = int(stack.parameters["NatGateways"]) if nat else 0
    return len(zones) == len(gateways) == wanted


def endpoints(stack: Stack, kind: str) -> dict[str, set[str]]:
    """Return the route tables of the endpoints of a kind, by their services."""
    prefix = f"com.amazonaws.{REGION}."
    return {
        each["ServiceName"].removeprefix(prefix): set(each.get("RouteTableIds", []))
        for _, each in stack.of("AWS::EC2::VPCEndpoint")
        if each["VpcEndpointType"] == kind
    }


def without_a_fee(stack: Stack) -> bool:
    found, needed = endpoints(stack, "Gateway"), task_tables(stack)
    return all(needed <= found.get(name, set()) for name in ("s3", "dynamodb"))


def as_asked(stack: Stack) -> bool:
    given = stack.parameters
    core = given["Egress"] == "none" or given["Endpoints"] == "always"
    chosen = {service for name, service in CHOSEN.items() if given[name] == "true"}
    return endpoints(stack, "Interface").keys() == (CORE if core else set()) | chosen


RULES: dict[str, Rule] = {
    "only our tasks may connect": all_of(
        f"{GROUP}/SecurityGroupIngress",
        lambda way, _: TLS <= way.items() and "SourceSecurityGroupId" in way,
    ),
    # One that says nothing about what goes out may reach everything.
    "outgoing connections use tls": every(
        settings(GROUP, {"SecurityGroupEgress": bool}),
        all_of(f"{GROUP}/SecurityGroupEgress", lambda way, _: TLS <= way.items()),
    ),
    "tasks are in two zones": network(
        lambda stack: len({zone(stack, each) for each in task_subnets(stack)}) >= 2
    ),
    "the subnets hold the most workers twice": addresses,
    "no subnet gives out public addresses by itself": all_of(
        "AWS::EC2::Subnet", lambda subnet, _: not subnet.get("MapPublicIpOnLaunch")
    ),
    "a task has a public address only where it was asked for": network(
        public_by_choice
    ),
    "the chosen route to the internet exists": network(internet_route),
    "a gateway for each zone is in that zone": network(gateways_by_zone),
    "s3 and dynamodb have gateway endpoints": network(without_a_fee),
    "without the internet every service has an endpoint": network(as_asked),
    "an endpoint answers to the name of its service in both zones": all_of(
        "AWS::EC2::VPCEndpoint",
        lambda endpoint, stack: (
            endpoint["VpcEndpointType"] != "Interface"
            or (
                set(endpoint["SubnetIds"]) == private_subnets(stack)
                and endpoint.get("PrivateDnsEnabled") is True
            )
        ),
    ),
}
