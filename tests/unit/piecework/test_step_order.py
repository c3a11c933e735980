from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Context, Dependency, Effect, Pipeline, SequenceNumbers, Stage
from piecework.errors import UsageError
from piecework.pipelines import lint_stage_order


class Order(BaseModel):
    n: int = 1


async def reserve(ctx: Context[Order]) -> None:
    del ctx


async def charge(ctx: Context[Order]) -> None:
    del ctx


async def ship(ctx: Context[Order]) -> None:
    del ctx


async def take_back(ctx: Context[Order]) -> None:
    del ctx


def order(*stages: Stage) -> Pipeline:
    return Pipeline("orders", payload=Order, stages=stages)


def undoable(run: Any, **facts: Any) -> Stage:
    return Stage(run, compensate=take_back, **facts)


def test_a_stage_with_a_compensation_is_easy_to_reverse_by_default() -> None:
    assert "easy" == undoable(reserve).reversibility
    assert "hard" == undoable(reserve, reversibility="hard").reversibility
    assert Stage(reserve).reversibility is None


def test_a_hard_stage_before_an_easy_one_is_a_warning() -> None:
    found = lint_stage_order(
        order(undoable(charge, reversibility="hard"), undoable(reserve))
    )

    assert [
        (
            "'charge' is hard to reverse and runs before 'reserve', "
            "which is easy to reverse: move it after 'reserve'."
        )
    ] == found


@pytest.mark.parametrize(
    "stages",
    [
        [
            undoable(reserve),
            undoable(charge, reversibility="hard"),
            Stage(ship, pivot=True),
        ],
        [undoable(charge, reversibility="hard"), Stage(reserve), Stage(ship)],
        [
            Stage(reserve, pivot=True, reversibility="impossible"),
            Stage(ship, reversibility="impossible"),
        ],
        [Stage(ship, pivot=True), Stage(charge, reversibility="hard"), Stage(reserve)],
    ],
)
def test_a_good_order_has_no_warning(stages: list[Stage]) -> None:
    assert [] == lint_stage_order(order(*stages))


def test_an_irreversible_stage_belongs_after_the_pivot() -> None:
    stages = [Stage(ship, reversibility="impossible"), Stage(charge, pivot=True)]

    assert [
        (
            "'ship' cannot be reversed, and runs before the pivot: "
            "move it after 'charge', the pivot."
        )
    ] == lint_stage_order(order(*stages))


def test_an_irreversible_stage_should_be_the_missing_pivot() -> None:
    stages = [undoable(reserve), Stage(ship, reversibility="impossible")]

    assert [
        "'ship' cannot be reversed, and there is no pivot: make it the pivot."
    ] == lint_stage_order(order(*stages))


def test_a_reversible_stage_should_have_a_compensation() -> None:
    assert [
        "'reserve' is easy to reverse, but has no compensation: add one."
    ] == lint_stage_order(order(Stage(reserve, reversibility="easy")))


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        (
            undoable(reserve, reversibility="impossible"),
            "but its reversibility is 'impossible'",
        ),
        (
            undoable(reserve, reversibility="maybe"),
            "is 'maybe', not one of",
        ),
    ],
)
def test_a_contradictory_reversibility_is_refused(stage: Stage, said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        order(stage)
    assert "pipeline.declaration.invalid" == refused.value.code


steps = Dependency(
    "steps",
    effect=Effect.PROVIDER_IDEMPOTENT,
    by=SequenceNumbers(of=lambda n, **_: n),
    scope="ann",
)


@steps.call
async def step(n: int, *, idempotency_key: str = "") -> int:
    return n


async def through_the_call(ctx: Context[Any]) -> int:
    return await step(1)


async def through_the_dependency(ctx: Context[Any]) -> Any:
    return await ctx.call(steps, step, 1)


@pytest.mark.parametrize("run", [through_the_call, through_the_dependency])
def test_numbers_need_an_order_key(run: Any) -> None:
    numbered = Pipeline("numbered", payload=Order, stages=[Stage(run)])
    [advice] = lint_stage_order(numbered)
    assert "'steps': add `ordered_by=`" in advice
    assert [] == lint_stage_order(replace(numbered, ordered_by=lambda _: "ann"))
