"""Find the models that a pipeline calls, so that a budget in dollars is kept.

The stages are functions, so their models are found where functions keep names: in
globals, closures, defaults and attributes. A model that only running code reaches is
not found here; a worker then refuses its call with `runtime.budget.no_price`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from piecework.dependency import Dependency
from piecework.domain.budget import Cap
from piecework.errors import UsageError
from piecework.pipelines import Pipeline

#: Objects that are looked at, so that a pipeline of any size is read in milliseconds.
MOST_OBJECTS: Final = 5_000
#: Tokens whose price is asked for: longer prompts cost more at some providers.
SHORT: Final = 1_000
MILLION: Final = 1_000_000


def require_prices(pipeline: Pipeline, cap: Cap) -> None:
    """Refuse a budget in dollars if a model of the pipeline has no price.

    Raises:
        UsageError: `submit.budget.no_price`.
    """
    if cap.nano_usd is None:
        return
    found = dependencies_of(pipeline)
    missing = sorted(
        {d.name for d in found if d.layer == "llm" and d.estimate_usd is None}
    )
    if missing:
        raise UsageError(
            f"The price of a call is not known for: {', '.join(missing)}.",
            code="submit.budget.no_price",
            next_step="Declare Model(…, price=…) or Dependency(…, estimate_usd=…), or"
            " submit with --budget-tokens.",
        )


def lane_prices(pipeline: Pipeline) -> list[dict[str, Any]]:
    """Return the prices of each model with a lane, in the lane and direct.

    They are in dollars for a million tokens, in and out, of a short request; None: the
    model has no price.
    """
    found = {d.name: d for d in dependencies_of(pipeline) if d.lane.tier}
    return [
        {
            "model": name,
            "lane": each.lane.tier,
            "lane_usd": tier_price(each, each.lane.tier),
            "direct_usd": tier_price(each, ""),
        }
        for name, each in sorted(found.items())
    ]


def tier_price(model: Dependency, tier: str) -> dict[str, float] | None:
    """Return what a million tokens cost in a tier; None: the model has no price."""
    from piecework.llm import ModelAnswer  # loads pydantic

    if model.usage is None:
        return None
    short = {
        "in": ModelAnswer("", tokens_in=SHORT, service_tier=tier),
        "out": ModelAnswer("", tokens_out=SHORT, service_tier=tier),
    }
    found = {where: model.usage(answer).usd for where, answer in short.items()}
    return {
        where: round(usd * MILLION / SHORT, 6)
        for where, usd in found.items()
        if usd is not None
    } or None


def dependencies_of(pipeline: Pipeline) -> list[Dependency]:
    """Return the dependencies that the functions of a pipeline name."""
    functions: list[Any] = [pipeline.join]
    for stage in pipeline.stages:
        functions += [stage.run, stage.compensate, stage.replan, *stage.fallback]
    found: list[Dependency] = []
    seen: set[int] = set()
    waiting = [each for each in functions if each is not None]
    while waiting and len(seen) < MOST_OBJECTS:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, Dependency):
            found.append(each)
            waiting += [f.dependency for f in each.fallback if f.dependency]
        else:
            waiting += named_by(each)
    return found


def named_by(value: Any) -> Iterator[Any]:
    """Yield what a value leads to: of a function, all that its code names."""
    yield getattr(value, "__wrapped__", None)
    match value:
        case functools.partial():
            yield from (value.func, *value.args, *value.keywords.values())
        case FunctionType():
            yield from named_by_function(value)
        case MethodType():
            yield from (value.__self__, value.__func__)
        case Mapping():
            yield from value.values()
        case list() | tuple() | set() | frozenset():
            yield from value
        case type() | ModuleType():
            pass
        case _ if is_users(type(value).__module__) or hasattr(value, "dependency"):
            yield from attributes(value)
            yield type(value).__dict__.get("__call__")


def attributes(value: Any) -> Iterator[Any]:
    """Yield the values of an object's attributes."""
    yield from vars(value).values() if hasattr(value, "__dict__") else ()
    for name in getattr(type(value), "__slots__", ()):
        yield getattr(value, name, None)


def named_by_function(function: FunctionType) -> Iterator[Any]:
    """Yield what a function's closure, defaults and code name."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # it is empty: the name is not assigned yet
            continue
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    if not is_users(function.__module__):
        return
    names = set(names_in(function.__code__))
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        if isinstance(value, ModuleType) and is_users(value.__name__):
            yield from (vars(value)[n] for n in names & vars(value).keys())
        else:
            yield value


def names_in(code: CodeType) -> Iterator[str]:
    """Yield the names in a function's code, those of functions inside it included."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from names_in(each)


def is_users(module: str) -> bool:
    """Return whether a module may be the user's: neither Python's nor Piecework's."""
    first = module.partition(".")[0]
    return first not in sys.stdlib_module_names and first != "piecework"
