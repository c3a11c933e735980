"""For every rule, the true templates with one thing changed (`fixtures.yaml`)."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.infra.check.templates import Templates, read

GONE = object()
FILE = Path(__file__).with_name("fixtures.yaml")


@dataclass(frozen=True, slots=True)
class Fixture:
    """A change that a rule must refuse."""

    rule: str
    template: str
    place: str
    value: Any = GONE

    @property
    def name(self) -> str:
        """Say what is changed."""
        to = "gone" if self.value is GONE else f"= {self.value}"[:60]
        return f"{self.rule}: {self.template} {self.place} {to}"

    def applied(self, templates: Templates) -> Templates:
        """Return the templates with the change."""
        if self.template == "Dockerfile":
            text = templates.dockerfile.replace(self.place, str(self.value))
            assert text != templates.dockerfile, self.name
            return Templates(templates.parsed, text, templates.stack_policy)
        if self.template == "data-stack-policy":
            changed = change(templates.stack_policy, self.place, self.value)
            return Templates(templates.parsed, templates.dockerfile, changed)
        changed = change(templates.parsed[self.template], self.place, self.value)
        return templates.with_template(self.template, changed)


def load_fixtures() -> list[Fixture]:
    """Read all of them."""
    return [
        Fixture(rule, *change)
        for rule, changes in read(FILE).items()
        for change in changes
    ]


def change(document: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    """Return a copy of a document with something else, or nothing, in one place."""
    *way, last = steps(place)
    changed = copy.deepcopy(document)
    inside: Any = changed
    for step in way:
        inside = inside[step]
    if value is GONE:
        del inside[last]
    elif isinstance(inside, list) and last == len(inside):
        inside.append(value)
    else:
        inside[last] = value
    assert changed != document, place
    return changed


def steps(place: str) -> list[str | int]:
    """Return the keys that lead to a place."""
    if place.startswith("/"):
        keys = place[1:].split("/")
    elif "!" in place:
        keys = ["Resources", *place.split("!")]
    else:
        resource, *inside = place.split(".")
        keys = ["Resources", resource, "Properties", *inside]
    return [int(key) if key.isdigit() else key for key in keys]
