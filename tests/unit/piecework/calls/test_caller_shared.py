from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from piecework.dependency import Dependency
from piecework.domain.protocols import ClaimLostError, NoResponseCache
from piecework.errors import PermanentError
from tests.unit.piecework.fakes import Diary, caller
from tests.unit.piecework.provider import ONCE, PURE, Provider, call


async def test_equal_calls_under_way_are_one_call() -> None:
    provider, one = Provider(answer=["a"]), caller()
    answers = await asyncio.gather(*(call(one, PURE, provider) for _ in range(5)))
    assert answers == [["a"]] * 5
    assert len(provider.keys) == 1
    assert one.counts.made == 1


async def test_chunks_that_share_an_answer_have_copies() -> None:
    provider, one = Provider(answer=["a"]), caller()
    mine, yours = await asyncio.gather(
        call(one, PURE, provider), call(one, PURE, provider)
    )
    mine.append("mine")
    assert yours == ["a"]


async def test_chunks_that_share_a_call_share_its_failure() -> None:
    provider, one = Provider(PermanentError("no")), caller()
    ends = await asyncio.gather(
        *(call(one, PURE, provider) for _ in range(3)), return_exceptions=True
    )
    assert [type(end) for end in ends] == [PermanentError] * 3
    assert len(provider.keys) == 1


async def test_a_failure_without_other_callers_keeps_no_references() -> None:
    one = caller()
    with pytest.raises(PermanentError):
        await call(one, PURE, Provider(PermanentError("no")))
    assert one._pending == {}


class Gate(Provider):
    """Answers when it is let."""

    def __init__(self, **facts: Any) -> None:
        super().__init__(**facts)
        self.open = asyncio.Event()

    async def answer_once(self, *args: Any, idempotency_key: str, **kwargs: Any) -> Any:
        self.keys.append(idempotency_key)
        await self.open.wait()
        return self.answer


async def flown(one: Any, dependency: Dependency, gate: Gate, count: int) -> Any:
    tasks = [asyncio.create_task(call(one, dependency, gate)) for _ in range(count)]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


async def test_a_cancelled_first_caller_does_not_cancel_the_others() -> None:
    gate, one = Gate(), caller()
    first, *others = await flown(one, PURE, gate, 4)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    gate.open.set()
    assert await asyncio.gather(*others) == ["answer"] * 3
    assert len(gate.keys) == 2
    assert len(set(gate.keys)) == 1
    assert one._pending == {}


async def test_a_cancelled_sharer_leaves_the_call_alone() -> None:
    gate, one = Gate(), caller()
    first, second, third = await flown(one, PURE, gate, 3)
    second.cancel()
    gate.open.set()
    assert await asyncio.gather(first, third) == ["answer"] * 2
    assert second.cancelled()
    assert len(gate.keys) == 1


async def test_an_effect_whose_caller_was_cancelled_is_in_doubt_for_the_next() -> None:
    gate, one = Gate(), caller()
    first, second = await flown(one, ONCE, gate, 2)
    first.cancel()
    with pytest.raises(PermanentError) as caught:
        await second
    assert caught.value.code == "runtime.effect.unknown"
    assert len(gate.keys) == 1


async def test_a_lost_claim_reaches_everybody() -> None:
    provider, one = Provider(ClaimLostError()), caller()
    ends = await asyncio.gather(
        *(call(one, PURE, provider) for _ in range(2)), return_exceptions=True
    )
    assert [type(end) for end in ends] == [ClaimLostError] * 2


class Slow(NoResponseCache):
    """A cache that never takes a response."""

    async def keep(self, key: str, value: str, seconds: float) -> None:
        del key, value, seconds
        await asyncio.Event().wait()


async def test_an_answer_is_remembered_before_it_is_shared() -> None:
    diary, provider = Diary(), Provider()
    one, model = caller(diary), replace(PURE, cache_ttl_s=3_600)
    one.responses = Slow()
    asked = asyncio.create_task(call(one, model, provider))
    for _ in range(9):
        await asyncio.sleep(0)
    asked.cancel()
    assert await call(caller(diary), model, provider) == "answer"
    assert len(provider.keys) == 1
