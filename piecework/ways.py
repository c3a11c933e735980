"""The ways of doing a stage: by its own function, or by one that runs in its place.

semantic failure   the `replan` hook, which is told of the failure
policy failure     the next function of the `fallback` chain
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from inspect import isasyncgenfunction, isgeneratorfunction
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from piecework.pipeline import Stage, StageFunction

RUN: Final = "run"
UNDO: Final = "undo"
REPLAN: Final = "replan"


def functions(stage: Stage) -> Mapping[str, StageFunction]:
    """Return what a stage can be asked to do, by the name of the way."""
    named = {RUN: stage.run, UNDO: stage.compensate, REPLAN: stage.replan}
    named |= dict(zip(fallbacks(stage), stage.fallback, strict=True))
    return {way: function for way, function in named.items() if function is not None}


def function(stage: Stage, way: str) -> StageFunction:
    """Return what a stage does in one of its ways; mostly it is its first."""
    return stage.run if way == RUN else functions(stage)[way]


def fallbacks(stage: Stage) -> list[str]:
    """Return the ways of the fallback chain, in its order."""
    return [f"fallback.{number}" for number, _ in enumerate(stage.fallback, 1)]


def complaints(stage: Stage) -> list[str]:
    """Say which of a stage's other ways could never help, as a sentence's end."""
    found = []
    if stage.replans < 1:
        found.append(f"{stage.name!r} may be replanned {stage.replans} times")
    if len({stage.run, *stage.fallback}) <= len(stage.fallback):
        found.append(f"{stage.name!r} would fall back to what has just refused")
    if stage.compensate is not None and yields(stage.compensate):
        found.append(f"the compensation of {stage.name!r} yields, and would do nothing")
    do = [function for way, function in functions(stage).items() if way != UNDO]
    if len({returned(function) for function in do} - {Any}) > 1:
        found.append(f"the ways of {stage.name!r} do not all return the same type")
    return found


def yields(function: Callable[..., Any]) -> bool:
    """Say whether a call of a function only makes a generator."""
    return isgeneratorfunction(function) or isasyncgenfunction(function)


def returned(function: Callable[..., Any]) -> Any:
    """Return the declared type of a result; Any where it is not known yet."""
    try:
        return typing.get_type_hints(function).get("return", Any)
    except (NameError, TypeError):
        return Any
