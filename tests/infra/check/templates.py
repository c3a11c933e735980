"""The templates under `infra/`, read as data: CloudFormation's short forms as long."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from piecework_orchestrator.infra.templates import parse
from tests.infra.check.render import Stack, render
from tests.infra.check.samples import variants

CHECKOUT = Path(__file__).parents[3]
INFRA = CHECKOUT / "infra"


class Templates:
    """All templates that are there, and what they become under their parameters.

    The image and the stack policy come from no template. They are here, too, so that a
    fixture can break them.
    """

    def __init__(
        self,
        parsed: Mapping[str, dict[str, Any]],
        dockerfile: str,
        stack_policy: dict[str, Any],
    ) -> None:
        self.parsed = dict(parsed)
        self.dockerfile = dockerfile
        self.stack_policy = stack_policy
        self._rendered: dict[str, list[Stack]] = {}

    def stacks(self, *names: str) -> list[Stack]:
        """Return every variant of the named templates; of all, if no name is given."""
        return [s for name in names or sorted(self.parsed) for s in self._of(name)]

    def default(self, name: str) -> Stack:
        """Return a template as it is without a choice."""
        return self._of(name)[0]

    def with_template(self, name: str, template: dict[str, Any]) -> Templates:
        """Return the same with another template in one place."""
        parsed = {**self.parsed, name: template}
        other = Templates(parsed, self.dockerfile, self.stack_policy)
        other._rendered = {k: v for k, v in self._rendered.items() if k != name}
        return other

    def _of(self, name: str) -> list[Stack]:
        if name not in self._rendered:
            template = self.parsed[name]
            self._rendered[name] = [
                render(name, template, given) for given in variants(template)
            ]
        return self._rendered[name]


def load() -> Templates:
    """Read all templates that are there."""
    parsed = {path.stem: read(path) for path in sorted(INFRA.glob("*.yaml"))}
    parsed = {name: t for name, t in parsed.items() if "Resources" in t}
    dockerfile = (INFRA / "Dockerfile").read_text(encoding="utf-8")
    policy = json.loads((INFRA / "data-stack-policy.json").read_text(encoding="utf-8"))
    return Templates(parsed, dockerfile, policy)


def read(path: Path) -> dict[str, Any]:
    """Parse one template."""
    text = path.read_text(encoding="utf-8")
    # A copy: `parse` keeps its result, and YAML shares nodes.
    return copy.deepcopy(dict(parse(text)))
