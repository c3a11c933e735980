"""Make of a template what the embedded emulator can take."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.infra.check.samples import default


def parameters(
    template: dict[str, Any], env: str, chosen: dict[str, Any]
) -> dict[str, Any]:
    """Return what one stack is given: lists as lists."""
    given: dict[str, Any] = {}
    for name, declared in template["Parameters"].items():
        value = chosen.get(name, default(name, declared))
        is_list = "List" in declared["Type"]
        given[name] = value.split(",") if is_list and isinstance(value, str) else value
    return {**given, "Env": env}


def flat(value: Any) -> str:
    """Return a parameter in CloudFormation's form."""
    return ",".join(value) if isinstance(value, list) else str(value)


def with_numbers(template: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return a template with its numbers in place of references to them.

    AWS turns what a reference hands on into a number if it needs one. The emulator
    leaves it a text, and fails.
    """
    numbers = {
        name: json.loads(str(given[name]))
        for name, declared in template["Parameters"].items()
        if declared["Type"] == "Number"
    }

    def put(node: dict[str, Any]) -> Any:
        return numbers.get(node["Ref"], node) if node.keys() == {"Ref"} else node

    replaced: dict[str, Any] = json.loads(json.dumps(template), object_hook=put)
    return replaced


def without(template: dict[str, Any], refused: set[str]) -> dict[str, Any]:
    """Return a template without what is refused, and without what refers to that."""
    resources = dict(template["Resources"])
    gone = {name for name, each in resources.items() if kinds_of(each) & refused}
    while gone:
        for name in gone:
            del resources[name]
        refers = re.compile(rf'"({"|".join(gone)})[".]|\$\{{({"|".join(gone)})[.}}]')
        gone = {n for n, each in resources.items() if refers.search(json.dumps(each))}
    names = set(template["Resources"]) - set(resources)
    outputs = {
        key: output
        for key, output in template.get("Outputs", {}).items()
        if not any(f'"{name}"' in json.dumps(output) for name in names)
    }
    return {**template, "Resources": resources, "Outputs": outputs}


def kinds_of(resource: dict[str, Any]) -> set[str]:
    """Return a resource's type, and each of its properties behind it."""
    kind, properties = resource["Type"], resource.get("Properties", {})
    return {kind, *(f"{kind}.{name}" for name in properties)}
