"""The variants of a stage: its own function, and the functions that replace it.

variant       function               runs after
run           the stage's own
replan        the `replan` hook      a semantic failure
fallback.N    the Nth `fallback`     a policy failure
compensate    `compensate`           the pivot can no longer be reached
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from inspect import isasyncgenfunction, isgeneratorfunction
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from piecework.pipeline import Stage, StageFunction

RUN: Final = "run"
COMPENSATE: Final = "compensate"
REPLAN: Final = "replan"


def variants(stage: Stage) -> Mapping[str, StageFunction]:
    """Return the functions of a stage by the names of their variants."""
    named = {RUN: stage.run, COMPENSATE: stage.compensate, REPLAN: stage.replan}
    named |= dict(zip(fallback_names(stage), stage.fallback, strict=True))
    return {name: function for name, function in named.items() if function is not None}


def function_of(stage: Stage, variant: str) -> StageFunction:
    """Return the function of a variant; `run` is looked up fastest."""
    return stage.run if variant == RUN else variants(stage)[variant]


def fallback_names(stage: Stage) -> list[str]:
    """Return the names of the variants of the fallback chain, in order."""
    return [f"fallback.{number}" for number, _ in enumerate(stage.fallback, 1)]


def validation_errors(stage: Stage) -> list[str]:
    """Return a clause for each variant of a stage that could never help."""
    found = []
    if stage.max_replans < 1:
        found.append(f"{stage.name!r} may be replanned {stage.max_replans} times")
    if len({stage.run, *stage.fallback}) <= len(stage.fallback):
        found.append(f"{stage.name!r} would fall back to a function that failed before")
    if stage.compensate is not None and is_generator(stage.compensate):
        found.append(f"the compensation of {stage.name!r} yields, and would do nothing")
    named = variants(stage).items()
    forward = [function for name, function in named if name != COMPENSATE]
    if len({result_type(function) for function in forward} - {Any}) > 1:
        found.append(f"the variants of {stage.name!r} do not all return the same type")
    return found


def is_generator(function: Callable[..., Any]) -> bool:
    """Return whether a call of a function only creates a generator."""
    return isgeneratorfunction(function) or isasyncgenfunction(function)


def result_type(function: Callable[..., Any]) -> Any:
    """Return the declared type of a result; Any where it cannot be resolved yet."""
    try:
        return typing.get_type_hints(function).get("return", Any)
    except (NameError, TypeError):
        return Any
