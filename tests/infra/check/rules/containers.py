"""Containers: what a process may do to its machine, and what it is told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from piecework.settings import Settings
from piecework_worker.worker import SHUTDOWN_MARGIN_S
from tests.infra.check.render import Stack
from tests.infra.check.rules.rule import rule
from tests.infra.check.templates import Templates

#: Seconds to spare between the last word of a stopping worker and SIGKILL.
SPARE_S = 10
FARGATE_STOP_S = 120
#: What the processes read beside `Settings`.
OTHERS = {"LOG_LEVEL"}
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
HEALTHCHECK = re.compile(r"^HEALTHCHECK (.+) CMD (\[.*\])$", re.MULTILINE)
MANIFEST_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")


def containers(templates: Templates) -> Iterator[tuple[Stack, str, dict[str, Any]]]:
    """Yield every container of every variant, with its task's name."""
    for stack in templates.stacks():
        for name, task in stack.of("AWS::ECS::TaskDefinition"):
            for container in task["ContainerDefinitions"]:
                yield stack, name, container


def told(container: dict[str, Any]) -> dict[str, str]:
    """Return the environment of a container."""
    return {each["Name"]: each["Value"] for each in container["Environment"]}


@rule
def the_root_filesystem_is_read_only(templates: Templates) -> Iterator[str]:
    for _, name, container in containers(templates):
        if container.get("ReadonlyRootFilesystem") is not True:
            yield name


@rule
def what_is_written_is_a_volume_that_the_image_declares(
    templates: Templates,
) -> Iterator[str]:
    declared = " ".join(
        re.findall(r"^VOLUME (.*)$", templates.dockerfile, re.MULTILINE)
    )
    for stack, name, container in containers(templates):
        volumes = [each["Name"] for each in stack.properties(name).get("Volumes", [])]
        mounts = container.get("MountPoints", [])
        paths = [m["ContainerPath"] for m in mounts if m["SourceVolume"] in volumes]
        if "/tmp" not in paths:  # noqa: S108 -- the container's own
            yield f"{name} cannot write temporary files"
        for path in paths:
            if f'"{path}"' not in declared:
                yield f"{name}: Fargate gives {path} to root alone"


@rule
def a_process_is_nobody_in_particular_and_the_one_of_the_image(
    templates: Templates,
) -> Iterator[str]:
    (user,) = re.findall(r"^USER (\S+)$", templates.dockerfile, re.MULTILINE)
    for _, name, container in containers(templates):
        given = str(container.get("User"))
        if given != user or not re.fullmatch(r"[1-9]\d*:[1-9]\d*", given):
            yield f"{name}: {given} beside {user}"


@rule
def a_process_has_no_power_over_the_kernel(templates: Templates) -> Iterator[str]:
    for _, name, container in containers(templates):
        powers = container.get("LinuxParameters", {}).get("Capabilities", {})
        if powers != {"Drop": ["ALL"]} or container.get("Privileged"):
            yield f"{name}: {powers}"


@rule
def signals_and_orphans_are_looked_after_by_an_init_process(
    templates: Templates,
) -> Iterator[str]:
    for _, name, container in containers(templates):
        if container.get("LinuxParameters", {}).get("InitProcessEnabled") is not True:
            yield name


@rule
def signals_reach_the_process_and_no_shell(templates: Templates) -> Iterator[str]:
    for _, name, container in containers(templates):
        words = [container.get("EntryPoint"), container.get("Command")]
        if "HealthCheck" in container:
            words.append(container["HealthCheck"]["Command"])
        flat = [word for each in words for word in each or [None]]
        if not all(isinstance(each, list) for each in words) or None in flat:
            yield f"{name}: {words}"
        elif {"sh", "bash", "/bin/sh", "-c", "CMD-SHELL"} & set(flat):
            yield f"{name}: {flat}"


@rule
def a_worker_is_done_with_draining_before_it_is_killed(
    templates: Templates,
) -> Iterator[str]:
    for _, name, container in containers(templates):
        shutdown_grace_s = float(
            told(container).get(
                "PIECEWORK_SHUTDOWN_GRACE_S", Settings().shutdown_grace_s
            )
        )
        stop_s = container.get("StopTimeout", 30)
        if stop_s > FARGATE_STOP_S or (
            "piecework-worker" in container["EntryPoint"]
            and shutdown_grace_s + SHUTDOWN_MARGIN_S + SPARE_S > stop_s
        ):
            yield f"{name}: drains {shutdown_grace_s} s, killed after {stop_s} s"


@rule
def a_worker_stops_by_itself_before_its_memory_is_full(
    templates: Templates,
) -> Iterator[str]:
    for stack, name, container in containers(templates):
        if "piecework-worker" in container["EntryPoint"]:
            most = int(stack.properties(name)["Memory"])
            stops = int(told(container).get("PIECEWORK_MEMORY_MB", 0))
            if not 0 < stops <= 0.85 * most:
                yield f"{name}: stops at {stops} of {most} MB"


@rule
def no_secret_is_written_in_a_template(templates: Templates) -> Iterator[str]:
    for _, name, container in containers(templates):
        for key in told(container):
            if SECRET.search(key):
                yield f"{name}: {key} is in the environment"
        for each in container.get("Secrets", []):
            if not each["ValueFrom"].startswith("arn:"):
                yield f"{name}: {each['Name']} is no reference"


@rule
def every_variable_is_one_that_the_code_reads(templates: Templates) -> Iterator[str]:
    known = {name.upper() for name in Settings.model_fields} | OTHERS
    for _, name, container in containers(templates):
        for key in told(container):
            mine = key.removeprefix("PIECEWORK_")
            if mine != key and mine not in known:
                yield f"{name}: nobody reads {key}"


@rule
def a_process_knows_whose_it_is(templates: Templates) -> Iterator[str]:
    for stack, name, container in containers(templates):
        said = told(container)
        given = {f"PIECEWORK_{k.upper()}": stack.parameters[k] for k in ("App", "Env")}
        if not given.items() <= said.items() or "AWS_DEFAULT_REGION" not in said:
            yield name


@rule
def what_runs_is_what_was_tested(templates: Templates) -> Iterator[str]:
    for stack, name, container in containers(templates):
        if not MANIFEST_DIGEST.search(container["Image"]):
            yield f"{name}: {container['Image']}"
        pattern = templates.parsed[stack.name]["Parameters"]["Image"]["AllowedPattern"]
        for loose in ("reviews", "reviews:latest", "registry.example/reviews:1.0"):
            if re.fullmatch(pattern, loose):
                yield f"{loose} would be taken"


@rule
def a_service_is_looked_at_as_the_image_would_be(templates: Templates) -> Iterator[str]:
    ((given, command),) = HEALTHCHECK.findall(templates.dockerfile)
    options = dict(re.findall(r"--([a-z-]+)=(\d+)", given))
    for _, name, container in containers(templates):
        if check := container.get("HealthCheck"):
            seconds = {
                "interval": check["Interval"],
                "timeout": check["Timeout"],
                "start-period": check["StartPeriod"],
                "retries": check["Retries"],
            }
            same = {key: str(value) for key, value in seconds.items()} == options
            if not same or check["Command"] != ["CMD", *json.loads(command)]:
                yield f"{name}: {check}"


@rule
def what_runs_for_ever_is_looked_at(templates: Templates) -> Iterator[str]:
    for stack in templates.stacks("service"):
        always = {each["TaskDefinition"] for _, each in stack.of("AWS::ECS::Service")}
        for task in always:
            for container in stack.properties(task)["ContainerDefinitions"]:
                words = container.get("HealthCheck", {}).get("Command", [])
                if words[-1:] != ["piecework_worker.health"]:
                    yield f"{task}: {words}"
                if "PIECEWORK_HEALTH_FILE" not in told(container):
                    yield f"{task}: the check has no file to look at"
