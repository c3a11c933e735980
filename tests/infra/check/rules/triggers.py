"""Triggers: each event runs one submit, which names it, as the role for that alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.infra.check.render import Stack
from tests.infra.check.rules.rule import Rule
from tests.infra.check.templates import Templates

#: What differs from event to event, and is the same if one is delivered twice.
EVENTS = {
    "AWS::Scheduler::Schedule": {"<aws.scheduler.scheduled-time>"},
    "AWS::Events::Rule": {"<key>", "<version>", "<written>"},
}


def targets(stack: Stack) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the kind of each trigger, its target, and what it tells the task."""
    for _, schedule in stack.of("AWS::Scheduler::Schedule"):
        target = schedule["Target"]
        yield "AWS::Scheduler::Schedule", target, target["Input"]
    for _, rule in stack.of("AWS::Events::Rule"):
        for target in rule["Targets"]:
            told = target["InputTransformer"]["InputTemplate"]
            yield "AWS::Events::Rule", target, told


def names_its_event(templates: Templates) -> Iterator[str]:
    """Yield the triggers whose second event would make a second job."""
    for stack in templates.stacks("triggers"):
        for kind, _, told in targets(stack):
            (override,) = json.loads(told)["containerOverrides"]
            verb, pipeline, _, *options = override["command"]
            named = dict(zip(options[::2], options[1::2], strict=True))
            event = set(named.get("--event", "").split())
            if (
                (override["name"], verb) != ("command", "submit")
                or pipeline.startswith("-")
                or not named.get("--job-id")
                or event != EVENTS[kind]
            ):
                yield f"{kind}: {override['command']}"


def runs_the_command_task(templates: Templates) -> Iterator[str]:
    """Yield the triggers that start another task, or as another role."""
    service = templates.default("service")
    families = {facts["Family"] for _, facts in service.of("AWS::ECS::TaskDefinition")}
    roles = {
        facts["RoleName"]
        for _, facts in templates.default("roles").of("AWS::IAM::Role")
    }
    for stack in templates.stacks("triggers"):
        own = f"{stack.parameters['App']}-{stack.parameters['Env']}"
        for kind, target, _ in targets(stack):
            family = target["EcsParameters"]["TaskDefinitionArn"].rpartition("/")[2]
            role = target["RoleArn"].rpartition("/")[2]
            cluster = target["Arn"].rpartition("/")[2]
            found = (family, role, cluster)
            if found != (f"{own}-command", f"{own}-trigger", own):
                yield f"{kind}: {found}"
            if family not in families or role not in roles:
                yield f"{kind}: {family} or {role} is in no template"


def every_choice_makes_its_own(templates: Templates) -> Iterator[str]:
    """Yield the choices with another number of triggers than were asked for."""
    for stack in templates.stacks("triggers"):
        given = stack.parameters
        asked = bool(given["Schedule"]) + bool(given["ObjectBucket"])
        if asked != len(list(targets(stack))):
            yield f"{given['Schedule']!r}, {given['ObjectBucket']!r}"


RULES: dict[str, Rule] = {
    "a second event makes no second job": names_its_event,
    "a trigger starts the task for commands as its own role": runs_the_command_task,
    "there are the triggers that were asked for": every_choice_makes_its_own,
}
