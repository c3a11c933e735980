"""`config validate` advises a name for each effect whose key has its module."""

from __future__ import annotations

from typing import Any

from piecework import Dependency, Effect, Pipeline, Stage, named_call
from piecework.saga.effect_names import unnamed_effects
from tests.unit.piecework.saga import bank_module
from tests.unit.piecework.saga.bank_module import Item

bank = Dependency("bank", effect=Effect.PROVIDER_IDEMPOTENT)
model = Dependency("model")


async def pay(n: int, *, idempotency_key: str) -> int:
    """Act by its place."""
    del idempotency_key
    return n


@named_call("refund")
async def refund(n: int, *, idempotency_key: str) -> int:
    """Act by a name of its own."""
    del idempotency_key
    return n


@bank.call
async def transfer(n: int, *, idempotency_key: str = "") -> int:
    """Act, declared by its place."""
    del idempotency_key
    return n


@bank.call(name="deposit")
async def deposit(n: int, *, idempotency_key: str = "") -> int:
    """Act, declared by a name of its own."""
    del idempotency_key
    return n


@model.call
async def ask(n: int) -> int:
    """Change nothing."""
    return n


async def helper(n: int) -> int:
    """Run in the stage."""
    return n


async def by_place(ctx: Any) -> int:
    """Call what has no own name, also of a module and in a compensation."""
    await helper(await ask(1))
    await ctx.call(bank, bank_module.close, 1)
    return int(await ctx.call(bank, pay, await transfer(1)))


async def by_name(ctx: Any) -> int:
    """Call what has an own name."""
    await ctx.call(model, helper, 1)
    return int(await ctx.call(bank, refund, await deposit(1)))


async def only_asks(ctx: Any) -> int:
    """Name a function that could act, of a dependency without an effect."""
    return int(await ctx.call(model, pay, 1))


def advised(*stages: Stage) -> set[str]:
    found = unnamed_effects(Pipeline("shop", payload=Item, stages=list(stages)))
    return {sentence.split()[0] for sentence in found}


def test_each_effect_without_an_own_name_is_named_once() -> None:
    unnamed = {"'pay'", "'transfer'", "'close'"}

    assert unnamed == advised(Stage(by_place))
    assert unnamed == advised(Stage(by_name, compensate=by_place), Stage(by_place))
    assert set() == advised(Stage(by_name), Stage(only_asks))
