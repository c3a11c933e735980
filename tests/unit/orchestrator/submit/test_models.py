"""Find the models of a pipeline, so that a budget in dollars is refused in time."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Context, Dependency, Fallback, Pipeline, Stage, Usage, pipeline
from piecework.declared import as_pipeline
from piecework.domain.budget import Cap
from piecework.errors import UsageError
from piecework.llm import Model, ModelRequest, Price
from piecework_orchestrator.submit.models import require_prices

DOLLARS = Cap(None, 40)


async def answer(request: ModelRequest) -> str:
    return request.text if hasattr(request, "text") else "ok"


class Row(BaseModel):
    text: str


priced = Model("priced", answer, price=Price(input=1, output=2))
free = Model("unpriced", answer)
backup = Model("with a backup", answer, price=Price(input=1, output=2), fallback=[free])
plain = Dependency("plain model", layer="llm", usage=lambda _: Usage(1, 1))
tool = Dependency("tool")


@tool.call
async def look(text: str) -> str:
    return text


@plain.call
async def complete(text: str) -> str:
    return text


@pipeline
async def with_price(row: Row) -> str:
    await look(row.text)
    return await priced.ask("", row.text)


@pipeline
async def without(row: Row) -> str:
    return await free.ask("", row.text)


async def helper(text: str) -> str:
    return await complete(text)


@pipeline
async def through_a_helper(row: Row) -> str:
    async def inner() -> str:
        return await helper(row.text)

    return await inner()


@pipeline
async def through_a_fallback(row: Row) -> str:
    return await backup.ask("", row.text)


class Asker:
    def __init__(self, model: Any) -> None:
        self.models = {"first": model}

    async def stage(self, ctx: Context[Row]) -> str:
        return str(await self.models["first"].ask("", ctx.payload.text))


async def by_context(ctx: Context[Row]) -> str:
    return str(await ctx.call(plain, look.function, "x"))


async def bound(ctx: Context[Row], model: Any) -> str:
    return str(await model.ask("", ctx.payload.text))


def of_stage(run: Any) -> Pipeline:
    return Pipeline(name="p", payload=Row, stages=[Stage(run, name="s")])


@pytest.mark.parametrize(
    ("declared", "missing"),
    [
        (with_price, ""),
        (without, "unpriced"),
        (through_a_helper, "plain model"),
        (through_a_fallback, "unpriced"),
        (of_stage(Asker(free).stage), "unpriced"),
        (of_stage(Asker(priced).stage), ""),
        (of_stage(by_context), "plain model"),
        (of_stage(functools.partial(bound, model=free)), "unpriced"),
    ],
)
def test_a_budget_in_dollars_needs_a_price_of_each_model(
    declared: Any, missing: str
) -> None:
    found = as_pipeline(declared)
    require_prices(found, Cap(tokens=5))
    if not missing:
        require_prices(found, DOLLARS)
        return
    with pytest.raises(UsageError, match=missing) as error:
        require_prices(found, DOLLARS)
    assert error.value.code == "submit.budget.no_price"


def test_a_price_of_its_own_makes_a_dependency_fit() -> None:
    own = replace(plain, estimate_usd=lambda *_: 0.1)
    chain = replace(tool, fallback=[Fallback(own, look.function)])

    async def run(ctx: Context[Row]) -> str:
        return str(await ctx.call(chain, look.function, "x"))

    require_prices(of_stage(run), DOLLARS)
