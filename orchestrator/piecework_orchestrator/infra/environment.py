"""The wanted state of an environment: options first, then its file, then settings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from piecework.errors import UsageError
from piecework.settings import Settings, from_environment, load_settings
from piecework_orchestrator.infra.stack import StackState
from piecework_orchestrator.infra.templates import Part, Template, load, stack_name

#: Command-line options with a name of their own, and the template parameter of each.
OPTION_PARAMETERS = {
    "image": "Image",
    "pipelines": "Pipelines",
    "owner": "Owner",
    "runbook": "Runbook",
    "vpc": "VpcId",
    "subnets": "SubnetIds",
    "security_group": "SecurityGroupId",
}


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a command line; an empty value means that the option is not set.

    Attributes:
        parameters: `Key=Value` words.
        shorthand: Values of the options in `OPTION_PARAMETERS`, by option.
        tags: `Key=Value` words.
    """

    app: str = ""
    env: str = ""
    region: str = ""
    config: Path | None = None
    parameters: tuple[str, ...] = ()
    shorthand: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    role_arn: str = ""


@dataclass(frozen=True, slots=True)
class Environment:
    """The wanted state of an environment.

    Attributes:
        shared_parameters: Values for every stack that declares the parameter.
        command_parameters: Values from this command; at least one of its stacks must
            declare each parameter.
        part_parameters: Values for one stack.
        option_parameters: Values that options such as `--image` set in this command.
        tags: All tags of every stack; CloudFormation sets them on its resources, too.
            None: a stack keeps its tags.
        role_arn: The role with which CloudFormation works; empty: the caller's.
    """

    app: str
    env: str
    region: str = ""
    shared_parameters: Mapping[str, str] = field(default_factory=dict)
    command_parameters: Mapping[str, str] = field(default_factory=dict)
    part_parameters: Mapping[Part, Mapping[str, str]] = field(default_factory=dict)
    tags: Mapping[str, str] | None = None
    role_arn: str = ""
    option_parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The prefix of all resource names."""
        return f"{self.app}-{self.env}"

    @property
    def uses_existing_vpc(self) -> bool:
        """Whether the user brings a VPC in place of the network stack."""
        return OPTION_PARAMETERS["vpc"] in self.parameters_for(Part.SERVICE)

    def stack(self, part: Part) -> str:
        """Return the name of a stack."""
        return stack_name(self.app, self.env, part)

    def parameters_for(self, part: Part) -> dict[str, str]:
        """Return the user's parameters; the stack may not declare all of them.

        Those of this command override those of the file.
        """
        file = {**self.shared_parameters, **self.part_parameters.get(part, {})}
        return {**file, **self.option_parameters, **self.command_parameters}

    def input_parts(self, part: Part) -> list[Part]:
        """Return the stacks whose outputs become parameters of this stack.

        If the user brings a VPC, the network stack is left out: its security groups
        belong to another VPC.
        """
        excluded = {Part.NETWORK} if self.uses_existing_vpc else set()
        return [earlier for earlier in part.earlier if earlier not in excluded]

    def inherited_parameters(
        self, part: Part, outputs: Mapping[Part, Mapping[str, str]]
    ) -> dict[str, str]:
        """Return the outputs of earlier stacks; a later stack overrides an earlier."""
        inherited: dict[str, str] = {}
        for earlier in self.input_parts(part):
            inherited |= outputs.get(earlier, {})
        return inherited


def resolve_environment(options: Options) -> Environment:
    """Combine the command line, the environment file and the settings.

    Raises:
        UsageError: `infra.config.invalid`, `infra.parameter.invalid`,
            `config.setting.invalid`.
    """
    file = read_file(options.config) if options.config else EnvironmentFile()
    settings = _load_settings(options.app or file.app, options.env or file.env)
    shared = {name: as_text(value) for name, value in file.common_parameters.items()}
    from_file = {name: as_text(getattr(file, name)) for name in OPTION_PARAMETERS}
    shared |= {OPTION_PARAMETERS[k]: value for k, value in from_file.items() if value}
    return Environment(
        settings.app,
        settings.env,
        options.region or file.region,
        shared,
        parse_parameters(options.parameters),
        {
            part: {name: as_text(value) for name, value in values.items()}
            for part, values in file.parameters.items()
        },
        (file.tags or {}) | parse_tags(options.tags) if options.tags else file.tags,
        options.role_arn or file.role_arn,
        {OPTION_PARAMETERS[k]: v for k, v in options.shorthand.items() if v},
    )


def parse_tags(words: Iterable[str]) -> dict[str, str]:
    """Parse `Key=Value` words; a key may have colons and slashes.

    Raises:
        UsageError: `infra.parameter.invalid`.
    """
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name or name.startswith("aws:"):
            message = f"The tag {word!r} is not Key=Value, or its key begins with aws:."
            raise UsageError(message, code="infra.parameter.invalid")
        found[name] = value
    return found


def parse_parameters(words: Iterable[str]) -> dict[str, str]:
    """Parse `Key=Value` words.

    Raises:
        UsageError: `infra.parameter.invalid`.
    """
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isalnum():
            message = f"{word!r} is not Key=Value."
            raise UsageError(message, code="infra.parameter.invalid")
        found[name] = value
    return found


def _load_settings(app: str, env: str) -> Settings:
    chosen = {"app": app, "env": env}
    settings = load_settings(**{k: v for k, v in chosen.items() if v})
    if not env and "env" not in from_environment(os.environ):
        message = "No environment is named."
        step = "Add `--env NAME`, or set PIECEWORK_ENV."
        raise UsageError(message, code="infra.config.invalid", next_step=step)
    return settings


# ── file of an environment ────────────────────────────────────────────────────

Value = str | int | float | bool | list[str]


class EnvironmentFile(BaseModel):
    """An environment file, such as `prod.yaml`.

    Attributes:
        common_parameters: Parameters for every stack that declares them.
        parameters: Parameters for one stack, by stack.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    app: str = ""
    env: str = ""
    region: str = ""
    image: str = ""
    pipelines: str = ""
    owner: str = ""
    runbook: str = ""
    vpc: str = ""
    subnets: list[str] = Field(default_factory=list)
    security_group: str = ""
    tags: dict[str, str] | None = None
    role_arn: str = ""
    common_parameters: dict[str, Value] = Field(default_factory=dict)
    parameters: dict[Part, dict[str, Value]] = Field(default_factory=dict)

    @field_validator("pipelines", mode="before")
    @classmethod
    def _join_list(cls, value: object) -> object:
        return as_text(value) if isinstance(value, list) else value


def read_file(path: Path) -> EnvironmentFile:
    """Read an environment file.

    Raises:
        UsageError: `infra.config.invalid`.
    """
    try:
        return EnvironmentFile.model_validate(
            yaml.safe_load(path.read_text("utf-8")) or {}
        )
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'the file'}: {e['msg']}"
            for e in error.errors(include_url=False, include_input=False)
        )
        raise _invalid_file(path, problems) from error
    except (OSError, ValueError, yaml.YAMLError) as error:  # ValueError: month 13
        raise _invalid_file(path, str(error)) from error


def as_text(value: Any) -> str:
    """Return a value in the form of a template parameter."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _invalid_file(path: Path, reason: str) -> UsageError:
    message = f"The environment file {path} is invalid: {reason}."
    return UsageError(message, code="infra.config.invalid", file=str(path))


# ── choose the value of each stack parameter ──────────────────────────────────


@dataclass(frozen=True, slots=True)
class StackParameters:
    """The parameters of one stack.

    Attributes:
        explicit: Parameters with a value in the request.
        previous: Parameters that keep the stack's present value.
        missing: Parameters without any value or default.
    """

    explicit: Mapping[str, str]
    previous: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    def to_request(self) -> list[dict[str, str | bool]]:
        """Return the parameters in the form of a CloudFormation request."""
        explicit: list[dict[str, str | bool]] = [
            {"ParameterKey": name, "ParameterValue": value}
            for name, value in self.explicit.items()
        ]
        previous: list[dict[str, str | bool]] = [
            {"ParameterKey": name, "UsePreviousValue": True} for name in self.previous
        ]
        return explicit + previous

    def matches(self, present: Mapping[str, str]) -> bool:
        """Return whether the stack already has these values."""
        return all(present.get(name) == value for name, value in self.explicit.items())


def resolve_parameters(
    template: Template,
    environment: Environment,
    inherited: Mapping[str, str],
    present: Mapping[str, str],
) -> StackParameters:
    """Choose the values: the user's, else outputs of earlier stacks, else present."""
    own = {"App": environment.app, "Env": environment.env}
    chosen = {
        **inherited,
        **environment.parameters_for(template.part),
        **own,
    }
    declared = template.parameters
    explicit = {name: chosen[name] for name in declared if name in chosen}
    previous = {n: present[n] for n in declared if n in present and n not in explicit}
    missing = tuple(
        name
        for name, facts in declared.items()
        if name not in explicit and name not in previous and "Default" not in facts
    )
    return StackParameters(explicit, previous, missing)


def parameter(
    environment: Environment, part: Part, name: str, present: Mapping[Part, StackState]
) -> str:
    """Return the value that a deploy would give to one parameter of a stack.

    Outputs of earlier stacks are not looked at.
    """
    template = load(part)
    current = present[part].parameters if part in present else {}
    values = resolve_parameters(template, environment, {}, current)
    default = template.parameters.get(name, {}).get("Default", "")
    return {**values.previous, **values.explicit}.get(name, str(default))


def refuse_unknown(environment: Environment, templates: Iterable[Template]) -> None:
    """Raise if a parameter is not declared by any template; list the declared ones.

    Raises:
        UsageError: `infra.parameter.unknown`.
    """
    known = {template.part: set(template.parameters) for template in templates}
    chosen = set().union(*known.values())
    for name in environment.command_parameters:
        if name not in chosen:
            raise _unknown(name, " and ".join(known), chosen)
    for name in (
        environment.shared_parameters.keys() - chosen - set(OPTION_PARAMETERS.values())
    ):
        declared = set().union(*(load(part).parameters for part in Part))
        if name not in declared:
            raise _unknown(name, "any stack", declared)
    for part, values in environment.part_parameters.items():
        for name in values:
            if part in known and name not in known[part]:
                raise _unknown(name, part, known[part])


def refuse_missing(part: Part, missing: Iterable[str]) -> None:
    """Raise for parameters that have no value.

    Raises:
        UsageError: `infra.parameter.missing`.
    """
    names = list(missing)
    if not names:
        return
    options = {parameter: option for option, parameter in OPTION_PARAMETERS.items()}
    flags = [
        f"--{options[name].replace('_', '-')} …"
        if name in options
        else f"--parameter {name}=…"
        for name in names
    ]
    message = f"The stack {part} needs a value for {', '.join(names)}."
    step = f"Add {' '.join(flags)}, or set it in the environment file."
    if part is Part.SERVICE and OPTION_PARAMETERS["vpc"] in names:
        step = f"Deploy the stack network, or use a VPC of yours: {' '.join(flags)}."
    raise UsageError(message, code="infra.parameter.missing", next_step=step)


def _unknown(name: str, stacks: str, known: set[str]) -> UsageError:
    near = get_close_matches(name, known, n=1)
    guess = f" The nearest name is {near[0]}." if near else ""
    return UsageError(
        f"There is no parameter {name} in {stacks}.{guess}",
        code="infra.parameter.unknown",
        next_step=f"Use one of {', '.join(sorted(known))}.",
    )
