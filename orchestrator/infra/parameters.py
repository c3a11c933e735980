"""Choose the value of each stack parameter: the user's, an output, the present one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from orchestrator.infra.environment import OPTION_PARAMETERS, Environment
from orchestrator.infra.parts import Part
from orchestrator.infra.templates import Template, load
from piecework.errors import UsageError


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
