"""Read the templates of `infra/`, from a checkout or from the wheel.

A checkout has them in `infra/`; the wheel carries copies in this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from piecework.errors import UsageError

# ── stacks of an environment ──────────────────────────────────────────────────


class Part(StrEnum):
    """One stack; a stack depends only on stacks before it in this order."""

    DATA = "data"
    NETWORK = "network"
    ROLES = "roles"
    DEPLOYER = "deployer"
    SERVICE = "service"
    SCALING = "scaling"
    ALARMS = "alarms"
    TRIGGERS = "triggers"

    @property
    def earlier(self) -> tuple[Part, ...]:
        """The stacks whose outputs can be parameters of this stack."""
        order = tuple(Part)
        return order[: order.index(self)]


def stack_name(app: str, env: str, part: Part) -> str:
    """Return the name of a stack; the templates use the same two words as prefix."""
    return f"{app}-{env}-{part}"


PACKAGED = Path(__file__).parent / "files"
CHECKOUT = Path(__file__).parents[3] / "infra"
STACK_POLICY = "data-stack-policy.json"
#: Bytes of a template that CloudFormation accepts in a request; more needs a bucket.
MAX_TEMPLATE_BYTES = 51_200


@dataclass(frozen=True, slots=True)
class Template:
    """A template, as text for CloudFormation and as parsed data.

    Attributes:
        text: Without comment lines: a request has room for 51,200 bytes.
    """

    part: Part
    text: str

    @property
    def body(self) -> Mapping[str, Any]:
        """The parsed template, with short forms of functions expanded."""
        return parse(self.text)

    @property
    def parameters(self) -> Mapping[str, Mapping[str, Any]]:
        """The declared parameters, by name."""
        declared: Mapping[str, Mapping[str, Any]] = self.body.get("Parameters", {})
        return declared

    @property
    def outputs(self) -> frozenset[str]:
        """The names of the outputs."""
        return frozenset(self.body.get("Outputs", {}))

    @property
    def capabilities(self) -> list[str]:
        """The capability that CloudFormation requires for named IAM resources."""
        types = {resource["Type"] for resource in self.body["Resources"].values()}
        names_roles = any(kind.startswith("AWS::IAM::") for kind in types)
        return ["CAPABILITY_NAMED_IAM"] if names_roles else []


def load(part: Part) -> Template:
    """Return the template of a stack.

    Raises:
        UsageError: `infra.template.missing`, `infra.template.too_large`.
    """
    text = without_comments(read(f"{part}.yaml"))
    if len(text.encode()) > MAX_TEMPLATE_BYTES:
        message = (
            f"{part}.yaml is longer than the {MAX_TEMPLATE_BYTES} bytes of a request."
        )
        raise UsageError(message, code="infra.template.too_large")
    return Template(part, text)


def without_comments(text: str) -> str:
    """Return a template without the lines that are only a comment.

    A test parses both: no template has such a line inside a value.
    """
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.lstrip().startswith("#"))


def read(name: str) -> str:
    """Return the text of a file of `infra/`.

    Raises:
        UsageError: `infra.template.missing`.
    """
    packaged = PACKAGED / name
    path = packaged if packaged.is_file() else CHECKOUT / name
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        message = f"This installation has no {name}."
        raise UsageError(message, code="infra.template.missing") from error


@cache
def parse(text: str) -> Mapping[str, Any]:
    """Parse a template and expand the short forms of its functions."""
    parsed: Mapping[str, Any] = yaml.load(text, Loader=Loader)  # noqa: S506, TID251 -- safe
    return parsed


#: The C parser is ten times faster, but not every build of PyYAML has it.
SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Loader(SafeLoader):  # type: ignore[misc]
    """Load CloudFormation's short function forms as their long forms."""


def _short_form(loader: Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    name = suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        return {name: loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    return {name: loader.construct_mapping(node, deep=True)}


Loader.add_multi_constructor("!", _short_form)
