"""Tasks: what a process may do and is told, how it is replaced, as whom it acts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from itertools import pairwise
from typing import Any

from typer.testing import CliRunner

from piecework.settings import Settings
from piecework_orchestrator.cli.app import app as piecework
from piecework_worker.__main__ import make_parser
from piecework_worker.worker import SHUTDOWN_MARGIN_S
from tests.infra.check.render import Stack
from tests.infra.check.rules.rule import (
    Properties,
    Rule,
    all_of,
    at,
    every,
    settings,
    within,
)
from tests.infra.check.samples import ACCOUNT, GIVEN
from tests.infra.check.templates import Templates

#: Seconds to spare between the last word of a stopping worker and SIGKILL.
SPARE_S = 10
FARGATE_STOP_S = 120
#: What the processes read beside `Settings`.
KNOWN = {each.name.upper() for each in fields(Settings)} | {"LOG_LEVEL"}
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
HEALTHCHECK = re.compile(r"^HEALTHCHECK (.+) CMD (\[.*\])$", re.MULTILINE)
SERVICE, TASK = "AWS::ECS::Service", "AWS::ECS::TaskDefinition"
CONTAINER = f"{TASK}/ContainerDefinitions"
#: Megabytes that Fargate gives with so many CPU units.
FARGATE = {
    256: (512, 1024, 2048),
    512: range(1024, 4097, 1024),
    1024: range(2048, 8193, 1024),
    2048: range(4096, 16385, 1024),
}
ROLLBACK = {"Enable": True, "Rollback": True}
ARN = f"arn:aws:iam::{ACCOUNT}:role/{{own}}"


def each_container(
    holds: Callable[[str, Properties, Stack, Templates], object],
) -> Rule:
    """Return the rule that something holds of each container of each task."""

    def check(templates: Templates) -> Iterator[str]:
        for stack in templates.stacks():
            for name, task in stack.of(TASK):
                for container in task["ContainerDefinitions"]:
                    if not holds(name, container, stack, templates):
                        yield f"{stack.name}: {name}"

    return check


def told(container: Properties) -> dict[str, str]:
    """Return the environment of a container."""
    return {each["Name"]: each["Value"] for each in container["Environment"]}


def volumes(
    name: str, container: Properties, stack: Stack, templates: Templates
) -> bool:
    """Return whether a process can write to /tmp.

    Fargate gives a volume that the image does not declare to root alone.
    """
    found = re.findall(r"^VOLUME (.*)$", templates.dockerfile, re.MULTILINE)
    given = [each["Name"] for each in stack.properties(name).get("Volumes", [])]
    mounts = container.get("MountPoints", [])
    paths = [m["ContainerPath"] for m in mounts if m["SourceVolume"] in given]
    return "/tmp" in paths and all(f'"{p}"' in " ".join(found) for p in paths)  # noqa: S108 -- the container's own


def user(_: str, container: Properties, __: Stack, templates: Templates) -> bool:
    (of_image,) = re.findall(r"^USER (\S+)$", templates.dockerfile, re.MULTILINE)
    given = str(container.get("User"))
    return given == of_image and bool(re.fullmatch(r"[1-9]\d*:[1-9]\d*", given))


def without_a_shell(container: Properties, _: Stack) -> bool:
    words = [container.get("EntryPoint"), container.get("Command")]
    if "HealthCheck" in container:
        words.append(container["HealthCheck"]["Command"])
    shell = {"sh", "bash", "/bin/sh", "-c", "CMD-SHELL"}
    return all(isinstance(each, list) and not shell & set(each) for each in words)


@cache
def understood(words: tuple[str, ...]) -> bool:
    """Return whether a program has a command with these options; it does not run."""
    program, *rest = words
    if program == "piecework":
        return CliRunner().invoke(piecework, [*rest, "--help"]).exit_code == 0
    if program != "piecework-worker":
        return False
    try:
        make_parser().parse_args(rest)
    except SystemExit:
        return False
    return True


def every_pipeline(container: Properties, stack: Stack) -> bool:
    words = container["Command"]
    given = [word for flag, word in pairwise(words) if flag == "--pipelines"]
    return bool(given == stack.parameters["Pipelines"])


def done_before_it_is_killed(container: Properties, _: Stack) -> bool:
    default = Settings().shutdown_grace_s
    grace_s = float(told(container).get("PIECEWORK_SHUTDOWN_GRACE_S", default))
    drains = "piecework-worker" in container["EntryPoint"]
    needed = grace_s + SHUTDOWN_MARGIN_S + SPARE_S if drains else 0
    return bool(needed <= container.get("StopTimeout", 30) <= FARGATE_STOP_S)


def no_secret(container: Properties, _: Stack) -> bool:
    references = [each["ValueFrom"] for each in container.get("Secrets", [])]
    return not any(SECRET.search(key) for key in told(container)) and all(
        each.startswith("arn:") for each in references
    )


def granted_by_whole_arns(templates: Templates) -> Iterator[str]:
    """Yield what the roles are given of a secret beside its ARN: it grants nothing."""
    declared, (arn,) = templates.parsed["roles"]["Parameters"], GIVEN["SecretArns"]
    pattern = declared["SecretArns"].get("AllowedPattern", ".*")
    for given in (arn, f"{arn}:key::", f"{arn}:key:AWSCURRENT:", f"KEY_ONE={arn}"):
        if bool(re.fullmatch(pattern, given)) is not (given == arn):
            yield f"SecretArns: {given}"


def only_what_is_read(container: Properties, _: Stack) -> bool:
    prefix = "PIECEWORK_"
    ours = {key for key in told(container) if key.startswith(prefix)}
    return {key.removeprefix(prefix) for key in ours} <= KNOWN


def knows_its_deployment(container: Properties, stack: Stack) -> bool:
    given = {f"PIECEWORK_{k.upper()}": stack.parameters[k] for k in ("App", "Env")}
    if container["Name"] == "reconciler":
        given["PIECEWORK_TENANT"] = stack.parameters["AlarmTenant"]
    said = told(container)
    return given.items() <= said.items() and "AWS_DEFAULT_REGION" in said


def image_by_digest(
    _: str, container: Properties, stack: Stack, templates: Templates
) -> bool:
    pattern = templates.parsed[stack.name]["Parameters"]["Image"]["AllowedPattern"]
    loose = "reviews", "reviews:latest", "registry.example/reviews:1.0"
    by_digest = re.search(r"@sha256:[0-9a-f]{64}$", container["Image"])
    return bool(by_digest) and not any(re.fullmatch(pattern, each) for each in loose)


def has_health_check_of_image(
    _: str, container: Properties, __: Stack, templates: Templates
) -> bool:
    if (check := container.get("HealthCheck")) is None:
        return True
    ((given, command),) = HEALTHCHECK.findall(templates.dockerfile)
    options = {
        "interval": str(check["Interval"]),
        "timeout": str(check["Timeout"]),
        "start-period": str(check["StartPeriod"]),
        "retries": str(check["Retries"]),
    }
    same = options == dict(re.findall(r"--([a-z-]+)=(\d+)", given))
    return same and check["Command"] == ["CMD", *json.loads(command)]


def has_health_check(service: Properties, stack: Stack) -> bool:
    return all(
        container.get("HealthCheck", {}).get("Command", [""])[-1]
        == "piecework_worker.health"
        and "PIECEWORK_HEALTH_FILE" in told(container)
        for container in stack.properties(service["TaskDefinition"])[
            "ContainerDefinitions"
        ]
    )


def public_by_parameter(service: Properties, stack: Stack) -> bool:
    found = at(service, "NetworkConfiguration.AwsvpcConfiguration.AssignPublicIp")
    return bool(found == stack.parameters["AssignPublicIp"])


def on_its_cluster(service: Properties, stack: Stack) -> bool:
    has = set(stack.properties("Cluster")["CapacityProviders"])
    asks = {each["CapacityProvider"] for each in service["CapacityProviderStrategy"]}
    return asks <= has and "LaunchType" not in service


def of_fargates_sizes(task: Properties, _: Stack) -> bool:
    fits = int(task["Memory"]) in FARGATE.get(int(task["Cpu"]), ())
    kind = task["RequiresCompatibilities"], task["NetworkMode"]
    return fits and kind == (["FARGATE"], "awsvpc")


def roles_that_there_are(templates: Templates) -> Iterator[str]:
    stack = templates.default("roles")
    roles = {role["RoleName"] for _, role in stack.of("AWS::IAM::Role")}
    for stack in templates.stacks():
        for name, task in stack.of(TASK):
            for arn in (task["TaskRoleArn"], task["ExecutionRoleArn"]):
                if arn.rsplit("/", 1)[-1] not in roles:
                    yield f"{name}: {arn}"


def logs(container: Properties, stack: Stack) -> bool:
    groups = {each["LogGroupName"] for _, each in stack.of("AWS::Logs::LogGroup")}
    options = container.get("LogConfiguration", {"Options": {}})["Options"]
    in_ours = options.get("awslogs-group") in groups
    return in_ours and options.get("mode") == "non-blocking"


def role_of(task: str, name: str) -> Rule:
    roles: dict[str, Any] = {"TaskRoleArn": f"{ARN}-{name}"}
    return settings(task, roles | {"ExecutionRoleArn": f"{ARN}-execution"})


RULES: dict[str, Rule] = {
    "the root filesystem is read only": settings(
        CONTAINER, {"ReadonlyRootFilesystem": True}
    ),
    "what is written is a volume that the image declares": each_container(volumes),
    "a process runs as the user of the image": each_container(user),
    "a process has no kernel capabilities": settings(
        CONTAINER,
        {
            "LinuxParameters.Capabilities": {"Drop": ["ALL"]},
            "Privileged": lambda given: not given,
        },
    ),
    "an init process handles signals and orphans": settings(
        CONTAINER, {"LinuxParameters.InitProcessEnabled": True}
    ),
    "signals reach the process and no shell": all_of(CONTAINER, without_a_shell),
    "a task has a command that its program knows": all_of(
        CONTAINER, lambda c, _: understood((*c["EntryPoint"], *c["Command"]))
    ),
    "a worker is given every pipeline": all_of(
        "WorkerTask/ContainerDefinitions", every_pipeline
    ),
    "a worker has its shutdown grace before it is killed": all_of(
        CONTAINER, done_before_it_is_killed
    ),
    "no secret is written in a template": all_of(CONTAINER, no_secret),
    "a secret is granted by its ARN alone": granted_by_whole_arns,
    "every variable is one that the code reads": all_of(CONTAINER, only_what_is_read),
    "a process knows its deployment": all_of(CONTAINER, knows_its_deployment),
    "what runs is what was tested": each_container(image_by_digest),
    "a service has the health check of the image": each_container(
        has_health_check_of_image
    ),
    "each service has a health check": all_of(SERVICE, has_health_check),
    "new tasks start before old ones stop": settings(
        SERVICE,
        {
            "DeploymentConfiguration.MinimumHealthyPercent": within(100),
            "DeploymentConfiguration.MaximumPercent": within(200),
        },
    ),
    "a version that does not start is rolled back": settings(
        SERVICE, {"DeploymentConfiguration.DeploymentCircuitBreaker": ROLLBACK}
    ),
    "no operator opens a shell in a task": settings(
        SERVICE, {"EnableExecuteCommand": False}
    ),
    "the cost of a task has tags": settings(
        SERVICE, {"EnableECSManagedTags": True, "PropagateTags": "SERVICE"}
    ),
    # An update of the stack would take the number of workers back.
    "how many workers there are is left to scaling": every(
        settings("WorkerService", {"DesiredCount": lambda given: given is None}),
        settings("ReconcilerService", {"DesiredCount": 1}),
    ),
    "the reconciler is a service of its own": every(
        settings(
            "WorkerTask/ContainerDefinitions",
            {"Command": lambda words: "--no-reconcile" in words},
        ),
        settings(
            "ReconcilerService",
            {
                "CapacityProviderStrategy.0.CapacityProvider": "FARGATE",
                "CapacityProviderStrategy.1": lambda given: given is None,
            },
        ),
    ),
    "a service runs on what its cluster has": all_of(SERVICE, on_its_cluster),
    "a task has a public address only by parameter": every(
        all_of(SERVICE, public_by_parameter),
        lambda templates: iter(
            ["the default is public"]
            * (templates.default("service").parameters["AssignPublicIp"] != "DISABLED")
        ),
    ),
    "a cluster has container insights": settings(
        "AWS::ECS::Cluster",
        {
            "ClusterSettings": lambda given: (
                {"Name": "containerInsights", "Value": "enabled"} in (given or [])
            )
        },
    ),
    "a task is of a size that fargate has": all_of(TASK, of_fargates_sizes),
    "a process acts in its own role and is started in another": every(
        role_of("WorkerTask", "worker"),
        role_of("ReconcilerTask", "reconciler"),
        role_of("CommandTask", "orchestrator"),
    ),
    "a task has roles that exist": roles_that_there_are,
    "logs go to our group and block no work": all_of(CONTAINER, logs),
    "logs are kept for a time and not for ever": settings(
        "AWS::Logs::LogGroup", {"RetentionInDays": within(7, 365)}
    ),
    "cluster services and logs have the names that others know": every(
        settings("Cluster", {"ClusterName": "{own}"}),
        settings("WorkerService", {"ServiceName": "{own}-worker"}),
        settings("ReconcilerService", {"ServiceName": "{own}-reconciler"}),
        settings("WorkerLogs", {"LogGroupName": "{path}/worker"}),
        settings("ReconcilerLogs", {"LogGroupName": "{path}/reconciler"}),
        settings("CommandLogs", {"LogGroupName": "{path}/command"}),
    ),
}
