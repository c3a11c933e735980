from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from piecework import pipelines as pipeline
from piecework.errors import UsageError
from piecework.pipelines import Pipeline, Stage
from tests.unit.piecework.fakes import Clause


async def extract(_: Any) -> str: ...  # type: ignore[empty-body]
async def again(_: Any) -> str: ...  # type: ignore[empty-body]
async def by_rules(_: Any) -> str: ...  # type: ignore[empty-body]
async def count(_: Any) -> int: ...  # type: ignore[empty-body]
async def undo(_: Any) -> None: ...


def unannotated(_: Any): ...  # type: ignore[no-untyped-def]  # noqa: ANN201


def refused(stage: Stage) -> str:
    with pytest.raises(UsageError) as caught:
        Pipeline(name="review", payload=Clause, stages=[stage])
    assert caught.value.code == "pipeline.declaration.invalid"
    return caught.value.message


def taken(stage: Stage) -> bool:
    return bool(Pipeline(name="review", payload=Clause, stages=[stage]).stages)


def test_every_variant_of_a_stage_has_a_name() -> None:
    stage = Stage(extract, compensate=undo, replan=again, fallback=[by_rules, count])
    expected = {
        "run": extract,
        "compensate": undo,
        "replan": again,
        "fallback.1": by_rules,
        "fallback.2": count,
    }
    assert expected == pipeline.variants(stage)
    assert expected == {way: pipeline.function_of(stage, way) for way in expected}


def test_a_stage_is_replanned_once_unless_it_says_otherwise() -> None:
    assert 1 == Stage(extract, replan=again).max_replans


def test_a_hook_that_may_never_run_is_refused() -> None:
    assert "replanned 0 times" in refused(Stage(extract, replan=again, max_replans=0))


def test_the_stage_itself_may_be_its_replan_hook() -> None:
    assert taken(Stage(extract, replan=extract))


@pytest.mark.parametrize("chain", [[extract], [by_rules, by_rules]])
def test_a_chain_that_repeats_a_function_is_refused(
    chain: list[Any],
) -> None:
    assert "a function that failed before" in refused(Stage(extract, fallback=chain))


def test_a_variant_that_returns_another_type_is_refused() -> None:
    said = "do not all return the same type"
    assert said in refused(Stage(extract, replan=count))
    assert said in refused(Stage(extract, fallback=[by_rules, count]))


def test_a_variant_of_unknown_type_is_accepted() -> None:
    assert taken(Stage(extract, replan=again, fallback=[unannotated]))


@pytest.mark.parametrize("kind", ["generator", "async generator"])
def test_a_generator_as_compensation_is_refused(kind: str) -> None:
    def plain(_: Any) -> Iterator[int]:
        yield 1

    async def on_the_loop(_: Any) -> AsyncIterator[int]:
        yield 1

    undoes = plain if kind == "generator" else on_the_loop
    assert "would do nothing" in refused(Stage(extract, compensate=undoes))
