"""Services: how many run where, how they are replaced, as whom, and what they log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.infra.check.render import Stack
from tests.infra.check.rules.rule import rule
from tests.infra.check.samples import ACCOUNT
from tests.infra.check.templates import Templates

ROLE = "AWS::IAM::Role"
ROLES = {
    "WorkerTask": "worker",
    "ReconcilerTask": "reconciler",
    "CommandTask": "orchestrator",
}
#: Megabytes that Fargate gives with so many CPU units.
FARGATE = {
    256: (512, 1024, 2048),
    512: range(1024, 4097, 1024),
    1024: range(2048, 8193, 1024),
    2048: range(4096, 16385, 1024),
}


def services(templates: Templates) -> Iterator[tuple[Stack, str, dict[str, Any]]]:
    """Yield every service of every variant."""
    for stack in templates.stacks():
        for name, service in stack.of("AWS::ECS::Service"):
            yield stack, name, service


def tasks(templates: Templates) -> Iterator[tuple[Stack, str, dict[str, Any]]]:
    """Yield every task definition of every variant."""
    for stack in templates.stacks():
        for name, task in stack.of("AWS::ECS::TaskDefinition"):
            yield stack, name, task


@rule
def new_ones_start_before_old_ones_stop(templates: Templates) -> Iterator[str]:
    for _, name, service in services(templates):
        rolls = service.get("DeploymentConfiguration", {})
        if rolls.get("MinimumHealthyPercent", 0) < 100:
            yield f"{name}: there are fewer for a while"
        if rolls.get("MaximumPercent", 0) < 200:
            yield f"{name}: there is no room for new ones"


@rule
def a_version_that_does_not_start_is_taken_back(templates: Templates) -> Iterator[str]:
    for _, name, service in services(templates):
        breaker = service["DeploymentConfiguration"].get("DeploymentCircuitBreaker")
        if breaker != {"Enable": True, "Rollback": True}:
            yield f"{name}: {breaker}"


@rule
def nobody_opens_a_shell_in_a_task(templates: Templates) -> Iterator[str]:
    for _, name, service in services(templates):
        if service.get("EnableExecuteCommand") is not False:
            yield name


@rule
def what_a_task_costs_can_be_told_apart(templates: Templates) -> Iterator[str]:
    for _, name, service in services(templates):
        managed = service.get("EnableECSManagedTags") is True
        if not managed or service.get("PropagateTags") != "SERVICE":
            yield name


@rule
def how_many_workers_there_are_is_left_to_scaling(
    templates: Templates,
) -> Iterator[str]:
    for stack in templates.stacks("service"):
        if "DesiredCount" in stack.properties("WorkerService"):
            yield "an update of the stack would take the number back"
        if stack.properties("ReconcilerService").get("DesiredCount") != 1:
            yield "there is not one reconciler"


@rule
def the_reconciler_is_a_service_of_its_own(templates: Templates) -> Iterator[str]:
    for stack in templates.stacks("service"):
        (worker,) = stack.properties("WorkerTask")["ContainerDefinitions"]
        if "--no-reconcile" not in worker["Command"]:
            yield "each worker looks at every job as well"
        where = stack.properties("ReconcilerService")["CapacityProviderStrategy"]
        if [each["CapacityProvider"] for each in where] != ["FARGATE"]:
            yield "the one reconciler may be taken away"


@rule
def a_service_runs_on_what_its_cluster_has(templates: Templates) -> Iterator[str]:
    for stack, name, service in services(templates):
        has = set(stack.properties("Cluster")["CapacityProviders"])
        asks = {
            each["CapacityProvider"] for each in service["CapacityProviderStrategy"]
        }
        if not asks <= has or "LaunchType" in service:
            yield f"{name}: {asks - has}"


@rule
def a_task_has_a_public_address_only_by_parameter(
    templates: Templates,
) -> Iterator[str]:
    for stack, name, service in services(templates):
        network = service["NetworkConfiguration"]["AwsvpcConfiguration"]
        given = network.get("AssignPublicIp")
        if given != stack.parameters["AssignPublicIp"]:
            yield f"{name}: {given}"
    if templates.default("service").parameters["AssignPublicIp"] != "DISABLED":
        yield "the default is public"


@rule
def a_cluster_tells_how_it_fares(templates: Templates) -> Iterator[str]:
    for stack in templates.stacks():
        for name, cluster in stack.of("AWS::ECS::Cluster"):
            insights = {"Name": "containerInsights", "Value": "enabled"}
            if insights not in cluster.get("ClusterSettings", []):
                yield name


@rule
def a_task_is_of_a_size_that_fargate_has(templates: Templates) -> Iterator[str]:
    for _, name, task in tasks(templates):
        cpu, memory = int(task["Cpu"]), int(task["Memory"])
        fits = memory in FARGATE.get(cpu, ())
        fargate = task["RequiresCompatibilities"] == ["FARGATE"]
        if not fits or not fargate or task["NetworkMode"] != "awsvpc":
            yield f"{name}: {cpu} and {memory}"


@rule
def a_process_acts_in_its_own_role_and_is_started_in_another(
    templates: Templates,
) -> Iterator[str]:
    for stack, name, task in tasks(templates):
        own = f"{stack.parameters['App']}-{stack.parameters['Env']}"
        prefix = f"arn:aws:iam::{ACCOUNT}:role/{own}"
        if task["TaskRoleArn"] != f"{prefix}-{ROLES.get(name)}":
            yield f"{name}: {task['TaskRoleArn']}"
        if task["ExecutionRoleArn"] != f"{prefix}-execution":
            yield f"{name}: {task['ExecutionRoleArn']}"


@rule
def a_task_takes_on_roles_that_there_are(templates: Templates) -> Iterator[str]:
    roles = {role["RoleName"] for _, role in templates.default("roles").of(ROLE)}
    for _, name, task in tasks(templates):
        for arn in (task["TaskRoleArn"], task["ExecutionRoleArn"]):
            if arn.rsplit("/", 1)[-1] not in roles:
                yield f"{name}: {arn}"


@rule
def logs_go_to_a_group_of_ours_and_hold_up_no_work(
    templates: Templates,
) -> Iterator[str]:
    for stack, name, task in tasks(templates):
        groups = {each["LogGroupName"] for _, each in stack.of("AWS::Logs::LogGroup")}
        for container in task["ContainerDefinitions"]:
            log = container.get("LogConfiguration", {"Options": {}})
            if log["Options"].get("awslogs-group") not in groups:
                yield f"{name}: {log}"
            if log["Options"].get("mode") != "non-blocking":
                yield f"{name} waits for its logs"


@rule
def logs_are_kept_for_a_time_and_not_for_ever(templates: Templates) -> Iterator[str]:
    for stack in templates.stacks():
        for name, group in stack.of("AWS::Logs::LogGroup"):
            if not 7 <= int(group.get("RetentionInDays", 0)) <= 365:
                yield f"{stack.name}: {name}"


@rule
def cluster_services_and_logs_have_the_names_that_others_know(
    templates: Templates,
) -> Iterator[str]:
    for stack in templates.stacks("service"):
        app, env = stack.parameters["App"], stack.parameters["Env"]
        for name, attribute, expected in (
            ("Cluster", "ClusterName", f"{app}-{env}"),
            ("WorkerService", "ServiceName", f"{app}-{env}-worker"),
            ("ReconcilerService", "ServiceName", f"{app}-{env}-reconciler"),
            ("WorkerLogs", "LogGroupName", f"/{app}/{env}/worker"),
            ("ReconcilerLogs", "LogGroupName", f"/{app}/{env}/reconciler"),
            ("CommandLogs", "LogGroupName", f"/{app}/{env}/command"),
        ):
            if stack.properties(name).get(attribute) != expected:
                yield f"{name} is not {expected}"
