"""What each parameter of a stack is to be: given, handed on, remembered, or default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from orchestrator.infra.environment import SHORT, Environment
from orchestrator.infra.parts import Part
from orchestrator.infra.templates import Template, load
from piecework.errors import UsageError


@dataclass(frozen=True, slots=True)
class Values:
    """The parameters of one stack.

    Attributes:
        said: Those that the request names a value of.
        kept: Those that the stack remembers.
        missing: Those that nobody gives a value, and the template neither.
    """

    said: Mapping[str, str]
    kept: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    def request(self) -> list[dict[str, str | bool]]:
        """Return them as CloudFormation takes them."""
        said: list[dict[str, str | bool]] = [
            {"ParameterKey": name, "ParameterValue": value}
            for name, value in self.said.items()
        ]
        kept: list[dict[str, str | bool]] = [
            {"ParameterKey": name, "UsePreviousValue": True} for name in self.kept
        ]
        return said + kept

    def same_as(self, present: Mapping[str, str]) -> bool:
        """Say whether a stack has exactly these values."""
        return all(present.get(name) == value for name, value in self.said.items())


def decide(
    template: Template,
    environment: Environment,
    handed: Mapping[str, str],
    present: Mapping[str, str],
) -> Values:
    """Choose: what was given, else outputs of earlier stacks, else what it has now."""
    own = {"App": environment.app, "Env": environment.env}
    chosen = {
        **handed,
        **environment.given_to(template.part),
        **own,
    }
    declared = template.parameters
    said = {name: chosen[name] for name in declared if name in chosen}
    kept = {n: present[n] for n in declared if n in present and n not in said}
    missing = tuple(
        name
        for name, facts in declared.items()
        if name not in said and name not in kept and "Default" not in facts
    )
    return Values(said, kept, missing)


def refuse_unknown(environment: Environment, templates: Iterable[Template]) -> None:
    """Raise for a parameter that no template knows, with those that are known.

    Raises:
        UsageError: `infra.parameter.unknown`.
    """
    known = {template.part: set(template.parameters) for template in templates}
    of_these = set().union(*known.values())
    for name in environment.given:
        if name not in of_these:
            raise _unknown(name, " and ".join(known), of_these)
    for name in environment.common.keys() - of_these - set(SHORT.values()):
        of_all = set().union(*(load(part).parameters for part in Part))
        if name not in of_all:
            raise _unknown(name, "any stack", of_all)
    for part, values in environment.of_part.items():
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
    options = {parameter: option for option, parameter in SHORT.items()}
    told = [
        f"--{options[name].replace('_', '-')} …"
        if name in options
        else f"--parameter {name}=…"
        for name in names
    ]
    message = f"The stack {part} needs a value for {', '.join(names)}."
    step = f"Add {' '.join(told)}, or put it into the environment file."
    if part is Part.SERVICE and SHORT["vpc"] in names:
        step = f"Deploy the stack network, or bring a VPC: {' '.join(told)}."
    raise UsageError(message, code="infra.parameter.missing", next_step=step)


def _unknown(name: str, where: str, known: set[str]) -> UsageError:
    near = get_close_matches(name, known, n=1)
    guess = f" Do you mean {near[0]}?" if near else ""
    return UsageError(
        f"There is no parameter {name} in {where}.{guess}",
        code="infra.parameter.unknown",
        next_step=f"Known are {', '.join(sorted(known))}.",
    )
