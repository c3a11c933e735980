"""An in-flight effect is drained before its compensation; other calls are cut off."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.calls.in_flight import EffectDrain
from tests.unit.piecework.fakes import Diary, caller
from tests.unit.piecework.provider import KEYED, Provider, call


class Gate(Provider):
    """Answers when it is let."""

    def __init__(self, **facts: Any) -> None:
        super().__init__(**facts)
        self.open, self.asked = asyncio.Event(), asyncio.Event()
        self.landed = 0

    async def answer_once(self, *args: Any, idempotency_key: str, **kwargs: Any) -> Any:
        self.asked.set()
        answer = await super().answer_once(
            *args, idempotency_key=idempotency_key, **kwargs
        )
        await self.open.wait()
        self.landed += 1
        return answer


async def cut_off(one: Any, provider: Gate, *args: Any) -> None:
    """Make a call, and cut the stage off that waits for it."""
    stage = asyncio.create_task(call(one, KEYED, provider, *args))
    await provider.asked.wait()
    stage.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stage


async def test_an_in_flight_effect_is_drained_before_compensation() -> None:
    one, provider = caller(Diary(), drains_effects=lambda: True), Gate()
    await cut_off(one, provider)
    landed = asyncio.create_task(one.wait_for_calls())
    await asyncio.sleep(0)
    assert (provider.landed, landed.done()) == (0, False)
    provider.open.set()
    await landed
    assert provider.landed == 1


async def test_an_effect_of_a_plain_cancel_is_cut_off_with_its_stage() -> None:
    one, provider = caller(Diary()), Gate()
    await cut_off(one, provider)
    provider.open.set()
    await one.wait_for_calls()
    assert provider.landed == 0


async def test_what_still_runs_is_cut_off_with_the_claim() -> None:
    one, providers = caller(Diary(), drains_effects=lambda: True), [Gate(), Gate()]
    for number, provider in enumerate(providers):
        await cut_off(one, provider, number)
    one.effect_drain.abandon()
    for provider in providers:
        provider.open.set()
    await one.wait_for_calls()
    assert [0, 0] == [provider.landed for provider in providers]


async def test_an_effect_that_fails_during_the_drain_blocks_nothing() -> None:
    one, provider = caller(Diary(), drains_effects=lambda: True), Gate()
    await cut_off(one, provider)
    provider.errors = [OSError()]
    provider.open.set()
    await one.wait_for_calls()


@pytest.mark.parametrize("fails", [True, False])
async def test_an_effect_without_its_stage_leaves_no_error_to_the_loop(
    *, fails: bool
) -> None:
    async def act() -> None:
        await asyncio.sleep(0)
        raise OSError

    errors: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, it: errors.append(it))
    drain = EffectDrain()
    stage = asyncio.create_task(drain.run_to_completion(act(), lambda: fails))
    await asyncio.sleep(0)
    stage.cancel()
    await asyncio.wait([stage])
    del stage  # its end keeps the effect alive
    for _ in range(3):
        await asyncio.sleep(0)
    gc.collect()
    assert errors == []


async def test_calls_of_the_work_are_counted_after_a_moment() -> None:
    now = [10.0]
    one = caller(Diary(), clock=lambda: now[0])
    for at in (10.0, 20.0, 30.0):
        now[0] = at
        provider = Provider()
        await call(one, KEYED, provider, at)
    assert [one.counts.count_ended_after(moment) for moment in (5, 10, 25, 30)] == [
        3,
        2,
        1,
        0,
    ]
    one.counts.forward = False
    await call(one, KEYED, Provider(), 40)
    assert one.counts.count_ended_after(5) == 3


async def test_a_call_that_waits_for_its_turn_is_waited_for_too() -> None:
    one: Any = caller(Diary())
    provider, turn = Provider(), asyncio.Event()
    one.attempts.pacer = SimpleNamespace(wait_turn=turn.wait)
    asked = asyncio.create_task(call(one, KEYED, provider))
    landed = asyncio.create_task(one.wait_for_calls())
    for _ in range(3):
        await asyncio.sleep(0)
    assert not landed.done()
    turn.set()
    await landed
    assert 1 == len(provider.keys)
    assert asked.done()


async def test_a_call_that_is_cut_off_before_its_turn_blocks_no_other() -> None:
    one: Any = caller(Diary())
    provider = Provider()
    one.attempts.pacer = SimpleNamespace(wait_turn=asyncio.Event().wait)
    asked = asyncio.create_task(call(one, KEYED, provider))
    await asyncio.sleep(0)
    asked.cancel()
    await one.wait_for_calls()
    assert [] == provider.keys


async def test_a_drained_effect_is_in_the_ledger() -> None:
    diary, provider = Diary(), Gate()
    one = caller(diary, drains_effects=lambda: True)
    await cut_off(one, provider)
    provider.open.set()
    await one.wait_for_calls()
    assert ["begin", "finish"] == diary.said
