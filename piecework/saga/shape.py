"""The shape of a declared pipeline, as it is recorded with a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from inspect import iscoroutinefunction, unwrap
from typing import Any

from piecework.dependency import DeclaredCall, Dependency
from piecework.domain import keys
from piecework.domain.effect import Effect
from piecework.domain.happened import KnownEffect
from piecework.domain.identity import function_text, path_of
from piecework.domain.result_types import payload_schema, result_schema
from piecework.domain.shape import Shape, StageShape
from piecework.errors import UsageError
from piecework.pipelines import COMPENSATE, Pipeline, Stage, StageFunction, variants
from piecework.saga.once import once_for_each

#: Characters of a digest of a schema.
DIGEST = 12


@once_for_each
def shape_of(pipeline: Pipeline) -> Shape:
    """Return the shape of a pipeline."""
    stages = pipeline.stages
    schema = payload_schema(pipeline.payload)
    return Shape(
        stages=tuple(_stage(stage) for stage in stages),
        pivot=pipeline.pivot_name,
        result=stages[pipeline.result_index].name,
        payload=keys.sha256(schema.encode())[:DIGEST],
        has_join=pipeline.join is not None,
    )


def _stage(stage: Stage) -> StageShape:
    schema = result_schema(stage.run)
    return StageShape(
        stage.name,
        stage.compensate is not None,
        keys.sha256(schema.encode())[:DIGEST],
        dict(_effects(stage)),
        tuple(sorted({*_calls(stage)})),
    )


def _effects(stage: Stage) -> Iterator[tuple[str, str]]:
    """Yield the dependencies that the functions of a stage name, and their effects.

    Only the globals that a function names are known: what these call is not seen.
    """
    for function in _forward(stage):
        for dependency in dependencies_of(function):
            yield dependency.name, dependency.effect.value


def _calls(stage: Stage) -> Iterator[str]:
    """Yield the names of the functions with an effect that a stage names.

    A function that only `ctx.call` connects with its dependency counts, if the stage
    names a dependency with an effect.
    """
    for function in _forward(stage):
        found = [*named_by(function)]
        has_effect = any(
            isinstance(each, Dependency) and each.effect is not Effect.PURE
            for each in found
        )
        for each in found:
            if isinstance(each, DeclaredCall):
                if each.dependency.effect is not Effect.PURE:
                    yield path_of(each)
            elif has_effect and iscoroutinefunction(each):
                yield path_of(each)


def _forward(stage: Stage) -> Iterator[StageFunction]:
    """Yield the functions of a stage, but its compensation."""
    for variant, function in variants(stage).items():
        if variant != COMPENSATE:
            yield function


def dependencies_of(function: StageFunction) -> Iterator[Dependency]:
    """Yield the dependencies that a function names, also by their declared calls."""
    for found in named_by(function):
        known = found.dependency if isinstance(found, DeclaredCall) else found
        if isinstance(known, Dependency):
            yield known


def mark_named(effects: Sequence[KnownEffect], stage: Stage) -> list[KnownEffect]:
    """Return the effects, each with whether the stage names its function now."""
    if not any(each.by_other for each in effects):
        return [*effects]
    texts = set[str]()
    for function in variants(stage).values():
        for found in named_by(function):
            known = found.function if isinstance(found, DeclaredCall) else found
            with suppress(UsageError):
                if iscoroutinefunction(known):
                    texts.add(function_text(known))
    return [replace(each, is_named=each.function in texts) for each in effects]


def named_by(function: StageFunction) -> Iterator[Any]:
    """Yield the globals that a function names."""
    function = unwrap(function)
    names = getattr(getattr(function, "__code__", None), "co_names", ())
    known = getattr(function, "__globals__", {})
    yield from (known[name] for name in names if name in known)
