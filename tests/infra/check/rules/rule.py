"""A rule yields what goes against it; most say what one kind of thing has to be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from tests.infra.check.render import Stack
from tests.infra.check.templates import Templates

Rule: TypeAlias = Callable[[Templates], Iterator[str]]
Properties: TypeAlias = dict[str, Any]

#: Rules that list values which must be there; they need no fixture that breaks them.
LISTS: set[Rule] = set()


def select(stack: Stack, what: str) -> Iterator[tuple[str, Properties]]:
    """Yield the things that a rule is about, with the name of their resource.

    `what` is a type or the name of a resource. After a slash it names a property: then
    the rule is about the items of that list.
    """
    of, _, listed = what.partition("/")
    for name, resource in stack.resources.items():
        if of in (resource["Type"], name):
            properties = resource.get("Properties", {})
            for each in properties.get(listed, []) if listed else [properties]:
                yield name, each


def all_of(what: str, holds: Callable[[Properties, Stack], object]) -> Rule:
    """Return the rule that something holds of each thing in every variant."""

    def check(templates: Templates) -> Iterator[str]:
        for stack in templates.stacks():
            for name, properties in select(stack, what):
                if not holds(properties, stack):
                    yield f"{stack.name}: {name}"

    return check


def settings(what: str, wanted: dict[str, Any]) -> Rule:
    """Return the rule of the values, or bounds, of settings by their paths.

    `{own}` in a text stands for the deployment's name, `{path}` for its path of logs.
    A rule about a thing that no template has is broken.
    """

    def check(templates: Templates) -> Iterator[str]:
        seen = False
        for stack in templates.stacks():
            for name, properties in select(stack, what):
                seen = True
                for place, value in wanted.items():
                    found = at(properties, place)
                    if not fits(found, value, stack):
                        yield f"{stack.name}: {name}.{place} is {found}"
        if not seen:
            yield f"{what} is in no template"

    if not any(map(callable, wanted.values())):
        LISTS.add(check)
    return check


def fits(found: Any, wanted: Any, stack: Stack) -> bool:
    """Return whether a value is the one that is wanted, or within a bound."""
    if callable(wanted):
        return bool(wanted(found))
    if isinstance(wanted, str):
        wanted = wanted.replace("{own}", own(stack)).replace("{path}", path(stack))
    # Of true and 1 only one is meant.
    return isinstance(found, bool) is isinstance(wanted, bool) and bool(found == wanted)


def at(properties: Any, place: str) -> Any:
    """Return what is at a place; nothing, if the way ends."""
    for step in place.split("."):
        try:
            properties = properties[int(step) if step.isdigit() else step]
        except (KeyError, IndexError, TypeError):
            return None
    return properties


def within(least: float, most: float = float("inf")) -> Callable[[Any], bool]:
    """Return the bound of a number that has to be there."""
    return lambda found: found is not None and least <= float(found) <= most


def every(*rules: Rule) -> Rule:
    """Return the rule that all of some hold."""

    def check(templates: Templates) -> Iterator[str]:
        for rule in rules:
            yield from rule(templates)

    if LISTS.issuperset(rules):
        LISTS.add(check)
    return check


def own(stack: Stack) -> str:
    """Return the name of the deployment that a stack belongs to."""
    return f"{stack.parameters['App']}-{stack.parameters['Env']}"


def path(stack: Stack) -> str:
    """Return what the names of a deployment's logs begin with."""
    return f"/{stack.parameters['App']}/{stack.parameters['Env']}"


def statements_of(node: Any) -> Iterator[Properties]:
    """Yield the statements of every policy within a resource, however deep."""
    if isinstance(node, list):
        for each in node:
            yield from statements_of(each)
    elif isinstance(node, dict):
        for key, inside in node.items():
            if key in {"AssumeRolePolicyDocument", "KeyPolicy", "PolicyDocument"}:
                yield from inside["Statement"]
            else:
                yield from statements_of(inside)


def many(one_or_more: Any) -> list[Any]:
    """Return a list, also of what stands alone."""
    return one_or_more if isinstance(one_or_more, list) else [one_or_more]
