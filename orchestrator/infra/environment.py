"""What is wanted of an environment: options first, then its file, then the settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.infra.environment_file import File, as_text, read_file
from orchestrator.infra.parts import Part, stack_name
from piecework.errors import UsageError
from piecework.settings import Settings, load_settings

#: What has an option of its own, and the parameter that it is.
SHORT = {
    "image": "Image",
    "pipelines": "Pipelines",
    "vpc": "VpcId",
    "subnets": "SubnetIds",
    "security_group": "SecurityGroupId",
}


@dataclass(frozen=True, slots=True)
class Options:
    """What a command line says; empty is: not said."""

    app: str = ""
    env: str = ""
    region: str = ""
    config: Path | None = None
    parameters: tuple[str, ...] = ()
    short: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment as it is wanted.

    Attributes:
        common: Values for each stack that knows a parameter of that name.
        given: The same, of this one command: one of its stacks has to know it.
        of_part: Values for one stack.
    """

    app: str
    env: str
    region: str = ""
    common: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)
    of_part: Mapping[Part, Mapping[str, str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The first two words of every name."""
        return f"{self.app}-{self.env}"

    @property
    def own_vpc(self) -> bool:
        """Whether somebody brings a network along."""
        return SHORT["vpc"] in self.given_to(Part.SERVICE)

    def stack(self, part: Part) -> str:
        """Return the name of a stack."""
        return stack_name(self.app, self.env, part)

    def given_to(self, part: Part) -> dict[str, str]:
        """Return what somebody gave; a stack takes of it what it knows."""
        return {**self.common, **self.given, **self.of_part.get(part, {})}

    def before(self, part: Part) -> list[Part]:
        """Return the stacks whose outputs are handed to this one.

        Not a network of ours to who brings one: its groups are of another VPC.
        """
        brought = {Part.NETWORK} if self.own_vpc else set()
        return [before for before in part.before if before not in brought]

    def handed(
        self, part: Part, outputs: Mapping[Part, Mapping[str, str]]
    ) -> dict[str, str]:
        """Return what the stacks before one tell; the later outweighs the earlier."""
        told: dict[str, str] = {}
        for before in self.before(part):
            told |= outputs.get(before, {})
        return told


def wanted(options: Options) -> Environment:
    """Join what the command line, the file and the settings say.

    Raises:
        UsageError: `infra.config.invalid`, `infra.parameter.invalid`,
            `config.setting.invalid`.
    """
    file = read_file(options.config) if options.config else File()
    settings = _settings(options.app or file.app, options.env or file.env)
    everywhere = {name: as_text(value) for name, value in file.everywhere.items()}
    of_file = {name: as_text(getattr(file, name)) for name in SHORT}
    short = {**of_file, **{k: v for k, v in options.short.items() if v}}
    return Environment(
        settings.app,
        settings.env,
        options.region or file.region,
        everywhere | {SHORT[name]: value for name, value in short.items() if value},
        pairs(options.parameters),
        {
            part: {name: as_text(value) for name, value in values.items()}
            for part, values in file.parameters.items()
        },
    )


def pairs(given: Iterable[str]) -> dict[str, str]:
    """Read `Key=Value` words.

    Raises:
        UsageError: `infra.parameter.invalid`.
    """
    found = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals or not name.isalnum():
            message = f"{word!r} is not Key=Value."
            raise UsageError(message, code="infra.parameter.invalid")
        found[name] = value
    return found


def _settings(app: str, env: str) -> Settings:
    chosen = {"app": app, "env": env}
    settings = load_settings(**{k: v for k, v in chosen.items() if v})
    if not env and "env" not in settings.model_fields_set:
        message = "It is not said which environment."
        step = "Add `--env NAME`, or set PIECEWORK_ENV."
        raise UsageError(message, code="infra.config.invalid", next_step=step)
    return settings
