from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from piecework.errors import UsageError
from piecework.pipelines import Pipeline, Stage
from piecework.settings import Settings
from tests.unit.piecework.fakes import Clause


async def first(_: Any) -> str:
    return "first"


async def second(_: Any) -> str:
    return "second"


async def third(_: Any) -> str:
    return "third"


async def undo(_: Any) -> None: ...


def declared(*stages: Stage, name: str = "review", **facts: Any) -> Pipeline:
    return Pipeline(name=name, payload=Clause, stages=list(stages), **facts)


def refused(*stages: Stage, **facts: Any) -> str:
    with pytest.raises(UsageError) as caught:
        declared(*stages, **facts)
    assert caught.value.code == "pipeline.declaration.invalid"
    return caught.value.message


def test_the_result_is_the_last_stages_unless_another_is_named() -> None:
    stages = Stage(first), Stage(second), Stage(third)
    assert declared(*stages).result_index == 2
    assert declared(*stages, result=second).result_index == 1


def test_a_compensation_above_the_pivot_is_allowed() -> None:
    stages = Stage(first, compensate=undo), Stage(second, pivot=True), Stage(third)
    assert declared(*stages).stages == stages


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 65, "a#b", 5])
def test_a_name_that_no_key_can_contain_is_refused(name: str) -> None:
    assert "its name may hold letters" in refused(Stage(first), name=name)


@pytest.mark.parametrize(
    "queue", ["GPU", "a_b", "1", "-", "a" * 31, "a#b", "é", "a\n", 5]
)
def test_a_queue_has_a_name_that_fits_the_names_in_aws(queue: str) -> None:
    assert "is not a name" in refused(Stage(first), queue=queue)
    assert "leave `queue` out" in refused(Stage(first), queue="default")
    longest = Settings(app="a" * 20, env="e" * 14).queue_name("q" * 30)
    assert len(longest) <= 80


def test_a_pipeline_without_a_stage_is_refused() -> None:
    assert "it has no stage" in refused()


def test_a_stage_name_that_no_key_can_contain_is_refused() -> None:
    assert "'a#b' is not a stage name" in refused(Stage(first, name="a#b"))


def test_an_unnamed_function_needs_a_name() -> None:
    assert "a stage is a lambda without a name" in refused(Stage(lambda _: None))


def test_two_stages_of_one_name_are_refused() -> None:
    said = refused(Stage(first), Stage(second, name="first"))
    assert "two stages have the same name" in said


def test_two_pivots_are_refused() -> None:
    said = refused(Stage(first, pivot=True), Stage(second, pivot=True))
    assert "more than one pivot" in said


def test_a_compensation_of_the_pivot_is_refused() -> None:
    said = refused(Stage(first, pivot=True, compensate=undo))
    assert "'first' has a compensation, but is at or after the pivot" in said


def test_a_compensation_below_the_pivot_is_refused() -> None:
    said = refused(Stage(first, pivot=True), Stage(second, compensate=undo))
    assert "'second' has a compensation" in said


def test_one_function_for_two_stages_is_refused() -> None:
    said = refused(Stage(first), Stage(first, name="again"))
    assert "one function runs two stages" in said


def test_a_result_that_is_not_a_stage_is_refused() -> None:
    said = refused(Stage(first), result=second)
    assert "its result is not one of its stages" in said


def test_the_refusal_names_the_pipeline() -> None:
    assert "Pipeline 'review'" in refused()


def test_only_an_isolated_stage_can_have_a_memory_limit() -> None:
    assert "but is not isolated" in refused(Stage(first, memory_mb=100))
    assert declared(Stage(first, isolate=True, memory_mb=100)).stages[0].isolate


def test_a_notify_hook_has_to_be_awaitable() -> None:
    def told(_: object) -> None: ...

    with pytest.raises(UsageError) as caught:
        Pipeline(name="p", payload=Clause, stages=[Stage(print)], notify=told)  # type: ignore[arg-type]
    assert "notify hook" in caught.value.message


async def one_coroutine(_: object) -> None:
    """Be a stage."""


def one_generator(_: object) -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("called", "said"),
    [
        (one_coroutine(None), "not the coroutine that its call returned"),
        (one_generator(None), "not the generator that its call returned"),
        (7, "not a value of type int"),
    ],
)
def test_a_stage_is_the_function_and_not_its_call(called: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Stage(called)
