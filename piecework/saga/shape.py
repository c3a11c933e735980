"""The shape of a declared pipeline, as it is recorded with a job."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import unwrap

from piecework.dependency import DeclaredCall, Dependency
from piecework.domain import keys
from piecework.domain.result_types import payload_schema, result_schema
from piecework.domain.shape import Shape, StageShape
from piecework.pipelines import COMPENSATE, Pipeline, Stage, StageFunction, variants

#: Characters of a digest of a schema.
DIGEST = 12
#: Pipelines of a process, at most; a program may declare them in functions.
MOST = 1_000
#: The shapes of the pipelines of this process. A schema takes milliseconds.
_KNOWN: dict[int, tuple[Pipeline, Shape]] = {}


def shape_of(pipeline: Pipeline) -> Shape:
    """Return the shape of a pipeline."""
    known = _KNOWN.get(id(pipeline))
    if known is None or known[0] is not pipeline:
        if len(_KNOWN) >= MOST:
            _KNOWN.clear()
        known = _KNOWN[id(pipeline)] = pipeline, _shape_of(pipeline)
    return known[1]


def _shape_of(pipeline: Pipeline) -> Shape:
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
    )


def _effects(stage: Stage) -> Iterator[tuple[str, str]]:
    """Yield the dependencies that the functions of a stage name, and their effects.

    Only the globals that a function names are known: what these call is not seen.
    """
    for variant, function in variants(stage).items():
        if variant != COMPENSATE:
            for dependency in dependencies_of(function):
                yield dependency.name, dependency.effect.value


def dependencies_of(function: StageFunction) -> Iterator[Dependency]:
    """Yield the dependencies that a function names, also by their declared calls."""
    function = unwrap(function)
    names = getattr(getattr(function, "__code__", None), "co_names", ())
    for name in names:
        found = getattr(function, "__globals__", {}).get(name)
        known = found.dependency if isinstance(found, DeclaredCall) else found
        if isinstance(known, Dependency):
            yield known
