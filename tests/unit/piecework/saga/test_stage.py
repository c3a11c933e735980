"""The leftovers of a stage: calls in flight, and changes to its payload."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Context, Pipeline, Stage
from piecework.domain.identity import named_call
from piecework.domain.outcome import CompensationResult, Sleeping, Succeeded
from piecework.domain.protocols import ClaimLostError
from piecework.errors import PermanentError, StoreError
from tests.unit.piecework.fakes import (
    Clause,
    Diary,
    Killed,
    caller,
    checkpoints_of,
    context,
    run,
)
from tests.unit.piecework.provider import KEYED, Provider
from tests.unit.piecework.script import Script, dead
from tests.unit.virtual import run_virtually


class Bank:
    """Pays in a second, unless it is to fail."""

    def __init__(self, did: list[str]) -> None:
        self.did = did
        self.pay = named_call("pay")(self.pay_in_a_second)

    async def pay_in_a_second(self, what: str, *, idempotency_key: str) -> str:
        if what == "nothing":
            message = "no"
            raise PermanentError(message)
        await asyncio.sleep(1)
        self.did.append(what)
        return idempotency_key


def test_code_that_a_stage_left_behind_cannot_call_during_compensation() -> None:
    left: list[asyncio.Task[Any]] = []

    async def fails(ctx: Any) -> None:
        async def late() -> None:
            await asyncio.sleep(1)
            await ctx.call(KEYED, Bank(script.did).pay, "late")

        left.append(asyncio.create_task(late()))
        message = "no"
        raise PermanentError(message)

    async def undo(_: Any) -> None:
        await asyncio.sleep(9)

    script = Script(fails={"b": fails, "undo b": undo})
    assert dead(run_virtually(run(script.pipeline)), CompensationResult.COMPENSATED)
    assert ["a", "b", "undo b", "undo a"] == script.did
    assert "after the end of its stage" in str(left[0].exception())


def test_a_stage_has_ended_when_its_calls_have() -> None:
    left: list[asyncio.Task[Any]] = []

    async def forgets(ctx: Any) -> None:
        pay = ctx.call(KEYED, Bank(script.did).pay, "paid")
        left.append(asyncio.create_task(pay))
        await asyncio.sleep(0)

    script = Script(fails={"b": forgets})
    assert isinstance(run_virtually(run(script.pipeline)), Succeeded)
    assert ["a", "b", "paid", "c", "d"] == script.did


def test_a_compensation_that_failed_has_ended_when_its_calls_have() -> None:
    async def undo(ctx: Any) -> None:
        pay = Bank(script.did).pay
        calls = (ctx.call(KEYED, pay, what) for what in ("back", "nothing"))
        await asyncio.gather(*calls)

    script = Script(fails={"b": PermanentError("no"), "undo b": undo})
    assert dead(run_virtually(run(script.pipeline)), CompensationResult.FAILED)
    assert ["a", "b", "undo b", "back", "undo a"] == script.did


async def test_a_compensation_is_done_though_it_looks_like_a_plain_function() -> None:
    undone: list[str] = []

    async def book(_: Any) -> None: ...
    async def cancel(_: Any, what: str) -> None:
        await asyncio.sleep(0)
        undone.append(what)

    async def fails(_: Any) -> None:
        message = "no"
        raise PermanentError(message)

    stages = [Stage(book, compensate=lambda ctx: cancel(ctx, "room")), Stage(fails)]
    pipeline = Pipeline(name="trip", payload=Clause, stages=stages)
    assert dead(await run(pipeline), CompensationResult.COMPENSATED)
    assert ["room"] == undone


class Basket(BaseModel):
    goods: list[str]


async def pick(ctx: Context[Basket]) -> list[str]:
    ctx.payload.goods.append("picked")
    return ["b", "a"]


async def order(ctx: Context[Basket]) -> None:
    ctx.result(pick).sort()


async def test_the_next_claim_makes_the_same_calls() -> None:
    """A stage may change its payload; the next claim does not see the change."""
    bank = Provider()

    async def pay(ctx: Context[Basket]) -> None:
        await ctx.call(KEYED, bank.ask, ctx.payload.goods, ctx.result(pick))
        if ctx.attempt == 1:
            raise Killed

    stages = [Stage(pick), Stage(order), Stage(pay)]
    pipeline = Pipeline(name="shop", payload=Basket, stages=stages)
    kept, diary = checkpoints_of(pipeline), Diary()

    async def attempt(number: int) -> Any:
        ctx = context(
            pipeline,
            attempt=number,
            payload=Basket(goods=[]),
            caller=caller(diary),
        )
        return await run(pipeline, kept, ctx=ctx)

    with pytest.raises(Killed):
        await attempt(1)
    assert isinstance(await attempt(2), Succeeded)
    assert [([], ["b", "a"], {})] == bank.args


async def test_a_compensation_sees_what_the_next_claim_would_see() -> None:
    found: list[Any] = []

    async def undo(ctx: Context[Basket]) -> None:
        found.extend([ctx.payload.goods, ctx.result(pick)])

    async def fails(ctx: Context[Basket]) -> None:
        ctx.payload.goods.append("more")
        ctx.result(pick).clear()
        message = "no"
        raise PermanentError(message)

    stages = [Stage(pick, compensate=undo), Stage(fails)]
    pipeline = Pipeline(name="shop", payload=Basket, stages=stages)
    await run(pipeline, ctx=context(pipeline, payload=Basket(goods=["one"])))
    assert [["one"], ["b", "a"]] == found


async def test_an_error_does_not_quote_data_that_a_stage_derived() -> None:
    async def decrypt(ctx: Context[Clause]) -> None:
        ctx.payload.text = "open sesame please"
        raise PermanentError(ctx.payload.text)

    pipeline = Pipeline(name="cave", payload=Clause, stages=[Stage(decrypt)])
    assert (
        "sesame" not in dead(await run(pipeline), CompensationResult.NOT_NEEDED).message
    )


class Broken(Diary):
    """A ledger in which no end of an effect can be written."""

    error: BaseException

    async def finish(self, key: str, value: str) -> None:
        del key, value
        raise self.error


async def grouped(ctx: Any, bank: Provider) -> None:
    async with asyncio.TaskGroup() as outer, asyncio.TaskGroup() as inner:
        outer.create_task(asyncio.sleep(0))
        inner.create_task(ctx.call(KEYED, bank.ask))


async def gathered(ctx: Any, bank: Provider) -> None:
    await asyncio.gather(ctx.call(KEYED, bank.ask), return_exceptions=True)


async def wrapped(ctx: Any, bank: Provider) -> None:
    try:
        await ctx.call(KEYED, bank.ask)
    except BaseException as error:
        raise RuntimeError from error


async def instead(ctx: Any, bank: Provider) -> None:
    try:
        await ctx.call(KEYED, bank.ask)
    except BaseException:  # noqa: BLE001 -- what a stage must not do
        await ctx.call(KEYED, bank.ask, "something else")


@pytest.mark.parametrize("pays", [grouped, gathered, wrapped, instead])
@pytest.mark.parametrize("error", [ClaimLostError(), StoreError("no table")])
async def test_a_lost_claim_or_an_outage_ends_the_run_even_if_the_stage_catches_it(
    pays: Any, error: BaseException
) -> None:
    bank, diary = Provider(), Broken()
    diary.error = error
    script = Script(fails={"b": lambda ctx: pays(ctx, bank)})
    ctx = context(script.pipeline, attempt=3, caller=caller(diary))
    with pytest.raises(type(error)):
        await run(script.pipeline, ctx=ctx)
    assert ["a", "b"] == script.did
    assert 1 == len(bank.keys)


@pytest.mark.parametrize("hides_it", [False, True])
def test_a_stage_that_waits_has_ended_when_its_calls_have(hides_it: bool) -> None:  # noqa: FBT001
    left: list[asyncio.Task[Any]] = []

    async def forgets(ctx: Any) -> None:
        pay = ctx.call(KEYED, Bank(script.did).pay, "paid")
        left.append(asyncio.create_task(pay))
        await asyncio.sleep(0)
        try:
            await ctx.sleep(minutes=5)
        except BaseException as error:  # noqa: BLE001 -- as a stage may
            raise ValueError if hides_it else error from None

    script = Script(fails={"b": forgets})
    assert isinstance(run_virtually(run(script.pipeline)), Sleeping)
    assert ["a", "b", "paid"] == script.did
