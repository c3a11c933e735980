"""The wanted state of an environment: options first, then its file, then settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.infra.environment_file import EnvironmentFile, as_text, read_file
from orchestrator.infra.parts import Part, stack_name
from piecework.errors import UsageError
from piecework.settings import Settings, load_settings

#: Command-line options with a name of their own, and the template parameter of each.
OPTION_PARAMETERS = {
    "image": "Image",
    "pipelines": "Pipelines",
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
    """

    app: str = ""
    env: str = ""
    region: str = ""
    config: Path | None = None
    parameters: tuple[str, ...] = ()
    shorthand: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Environment:
    """The wanted state of an environment.

    Attributes:
        shared_parameters: Values for every stack that declares the parameter.
        command_parameters: Values from this command; at least one of its stacks must
            declare each parameter.
        part_parameters: Values for one stack.
    """

    app: str
    env: str
    region: str = ""
    shared_parameters: Mapping[str, str] = field(default_factory=dict)
    command_parameters: Mapping[str, str] = field(default_factory=dict)
    part_parameters: Mapping[Part, Mapping[str, str]] = field(default_factory=dict)

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
        """Return the user's parameters; the stack may not declare all of them."""
        own = self.part_parameters.get(part, {})
        return {**self.shared_parameters, **self.command_parameters, **own}

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
    shorthand = {**from_file, **{k: v for k, v in options.shorthand.items() if v}}
    shared |= {OPTION_PARAMETERS[k]: value for k, value in shorthand.items() if value}
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
    )


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
    if not env and "env" not in settings.model_fields_set:
        message = "No environment is named."
        step = "Add `--env NAME`, or set PIECEWORK_ENV."
        raise UsageError(message, code="infra.config.invalid", next_step=step)
    return settings
