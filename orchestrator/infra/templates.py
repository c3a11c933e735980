"""The templates of `infra/`, wherever we run from, and what they declare.

A checkout has them under `infra/`; the wheel carries copies in this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from orchestrator.infra.parts import Part
from piecework.errors import UsageError

HERE = Path(__file__).parent / "files"
CHECKOUT = Path(__file__).parents[2] / "infra"
STACK_POLICY = "data-stack-policy.json"
#: Bytes that CloudFormation takes in a request; a longer one would need a bucket.
LONGEST = 51_200


@dataclass(frozen=True, slots=True)
class Template:
    """A template, as text for CloudFormation and as data for us."""

    part: Part
    text: str

    @property
    def body(self) -> Mapping[str, Any]:
        """The template, the short forms of its functions as long ones."""
        return parse(self.text)

    @property
    def parameters(self) -> Mapping[str, Mapping[str, Any]]:
        """What can be set, by name."""
        declared: Mapping[str, Mapping[str, Any]] = self.body.get("Parameters", {})
        return declared

    @property
    def outputs(self) -> frozenset[str]:
        """The names of what it tells the stacks after it."""
        return frozenset(self.body.get("Outputs", {}))

    @property
    def capabilities(self) -> list[str]:
        """What CloudFormation wants to be told: whether there are roles with names."""
        types = {found["Type"] for found in self.body["Resources"].values()}
        names_roles = any(kind.startswith("AWS::IAM::") for kind in types)
        return ["CAPABILITY_NAMED_IAM"] if names_roles else []


def load(part: Part) -> Template:
    """Return a template.

    Raises:
        UsageError: `infra.template.missing`, `infra.template.too_large`.
    """
    text = read(f"{part}.yaml")
    if len(text.encode()) > LONGEST:
        message = f"{part}.yaml is longer than the {LONGEST} bytes of a request."
        raise UsageError(message, code="infra.template.too_large")
    return Template(part, text)


def read(name: str) -> str:
    """Return one of the files of `infra/`."""
    packaged = HERE / name
    path = packaged if packaged.is_file() else CHECKOUT / name
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        message = f"This installation has no {name}."
        raise UsageError(message, code="infra.template.missing") from error


@cache
def parse(text: str) -> Mapping[str, Any]:
    """Return a template as data, the short forms of its functions as long ones."""
    parsed: Mapping[str, Any] = yaml.load(text, Loader=Loader)  # noqa: S506 -- a SafeLoader
    return parsed


#: The parser in C is ten times as quick; not every build of PyYAML has it.
SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Loader(SafeLoader):  # type: ignore[misc]
    """Reads CloudFormation's short forms as their long ones."""


def _short_form(loader: Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    name = suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        return {name: loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    return {name: loader.construct_mapping(node, deep=True)}


Loader.add_multi_constructor("!", _short_form)
