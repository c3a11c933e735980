"""The data of a failed call is freed at once, without the garbage collector."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

from piecework import Context, Dependency, Pipeline, Stage
from piecework.domain.identity import named_call
from piecework.domain.outcome import Succeeded
from piecework.errors import SemanticError, TransientError
from piecework.resilience.retry import RetryPolicy
from tests.unit.piecework.fakes import Clause, run

MODEL = Dependency("model", retry=RetryPolicy(attempts=2), breaker=None)


class Answer:
    """Something large that a call holds."""

    held = 0

    def __init__(self) -> None:
        Answer.held += 1

    def __del__(self) -> None:
        Answer.held -= 1


class Model:
    """Reads an answer, then fails with these errors first."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    async def ask(self, *, idempotency_key: str) -> str:
        del idempotency_key
        answer = Answer()
        await asyncio.sleep(0)
        if self.errors:
            try:
                raise ValueError(repr(answer))
            except ValueError as error:
                raise self.errors.pop(0) from error
        return "answer"


@pytest.fixture(autouse=True)
def nobody_collects() -> Iterator[None]:
    gc.disable()
    Answer.held = 0
    yield
    gc.enable()


def pipeline(model: Model, **ways: Any) -> Pipeline:
    ask = named_call("ask")(model.ask)

    async def asks(ctx: Context[Clause]) -> str:
        return await ctx.call(MODEL, ask)

    stage = Stage(asks, name="asks", **ways)
    return Pipeline(name="review", stages=[stage], payload=Clause)


@pytest.mark.parametrize("errors", [1, 2])
async def test_a_failed_call_leaves_nothing_in_memory(errors: int) -> None:
    model = Model(*(TransientError("down") for _ in range(errors)))
    outcome = await run(pipeline(model))

    assert (errors == 1) is isinstance(outcome, Succeeded)
    assert [] == model.errors
    assert 0 == Answer.held


async def test_a_stage_that_runs_another_variant_leaves_nothing_in_memory() -> None:
    seen: list[int] = []

    async def replans(ctx: Context[Clause]) -> str:
        del ctx
        await asyncio.sleep(0)
        seen.append(Answer.held)
        return "planned"

    model = Model(SemanticError("nonsense"))
    outcome = await run(pipeline(model, replan=replans))

    assert isinstance(outcome, Succeeded)
    assert [0] == seen
