"""Find the effects that would happen again if their functions moved to another module.

The key of a call has module and qualified name of its function, unless the function has
a name of its own. A service that knows another key does the same act again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import iscoroutinefunction, unwrap
from types import ModuleType
from typing import Any

from piecework.dependency import DeclaredCall, Dependency, takes_key
from piecework.domain.effect import Effect
from piecework.domain.identity import has_own_name, path_of
from piecework.pipelines import Pipeline, StageFunction, variants


def unnamed_effects(pipeline: Pipeline) -> list[str]:
    """Return one sentence for each function with an effect and without an own name."""
    found: dict[str, None] = {}
    for stage in pipeline.stages:
        for variant in variants(stage).values():
            for function in effect_functions(variant):
                if not has_own_name(function):
                    name = path_of(function)
                    found[
                        f"{name!r} has an effect, and its key has its module: give it "
                        f"a name of its own, such as `named_call({name!r})` or "
                        f"`call(name={name!r})`, so that it may move."
                    ] = None
    return list(found)


def effect_functions(function: StageFunction) -> Iterator[Callable[..., Any]]:
    """Yield the functions with an effect that a function of a stage names.

    Only the globals that it names are known, and what it names of a module: what these
    call is not seen. A function that takes the idempotency key may act.
    """
    named = list(named_by(unwrap(function)))
    acts = any(isinstance(each, Dependency) and has_effect(each) for each in named)
    for each in named:
        if isinstance(each, DeclaredCall):
            if has_effect(each.dependency):
                yield each.function
        elif acts and iscoroutinefunction(each) and takes_key(each):
            yield each


def named_by(function: Callable[..., Any]) -> Iterator[Any]:
    """Yield the globals that a function names, and what it names of modules."""
    names = set(getattr(getattr(function, "__code__", None), "co_names", ()))
    known = getattr(function, "__globals__", {})
    for name in sorted(names & known.keys()):
        found = known[name]
        if isinstance(found, ModuleType):
            yield from (vars(found)[n] for n in sorted(names & vars(found).keys()))
        else:
            yield found


def has_effect(dependency: Dependency) -> bool:
    """Return whether the calls of a dependency change something."""
    return dependency.effect is not Effect.PURE
