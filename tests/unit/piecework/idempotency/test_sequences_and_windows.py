"""Numbers that come in order, and calls that are equal for a while."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from piecework.errors import PermanentError, UsageError
from piecework.standalone import MemoryIdempotency, SequenceNumbers, TimeWindow
from tests.unit.piecework.idempotency.guarding import Airline, Clock, guard
from tests.unit.piecework.provider import RefusedError


class Account:
    """Adds up what it was told to, and may fail first."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.total = 0
        self.keys: list[str] = []

    async def add(self, number: int, amount: int, idempotency_key: str = "") -> int:
        self.keys.append(idempotency_key)
        if self.errors:
            raise self.errors.pop(0)
        self.total += amount
        return self.total


def stream(account: Account, store: Any = None, **facts: Any) -> Any:
    by = SequenceNumbers(of=lambda number, **_: number, **facts)
    return guard(account.add, store, scope="account-1", by=by)


async def code_of(work: Any) -> str:
    with pytest.raises(PermanentError) as caught:
        await work
    return caught.value.code


async def test_each_number_is_carried_out_once() -> None:
    account = Account()
    add = stream(account)
    assert [await add(n, 10) for n in (1, 2, 2, 1, 3)] == [10, 20, 20, 10, 30]
    assert account.total == 30


async def test_a_gap_is_an_error_that_names_the_next_number() -> None:
    add = stream(Account())
    await add(1, 10)
    with pytest.raises(PermanentError, match="next number is 2") as caught:
        await add(3, 10)
    assert caught.value.code == "idempotency.sequence.gap"
    assert await code_of(stream(Account())(2, 10)) == "idempotency.sequence.gap"


async def test_a_number_that_failed_is_still_due() -> None:
    add = stream(Account(ConnectionError("lost")))
    with pytest.raises(ConnectionError):
        await add(1, 10)
    assert await code_of(add(2, 10)) == "idempotency.sequence.gap"
    assert await add(1, 10) == 10


async def test_a_past_number_with_other_arguments_is_an_error() -> None:
    add = stream(Account())
    await add(1, 10)
    assert await code_of(add(1, 99)) == "idempotency.key.mismatch"


async def test_a_past_number_is_not_done_again_when_its_answer_is_gone() -> None:
    clock, account = Clock(), Account()
    add = stream(account, MemoryIdempotency(clock=clock), ttl_s=5)
    await add(1, 10)
    clock.now += 6
    assert await code_of(add(1, 10)) == "idempotency.answer.not_kept"
    assert await add(2, 10) == 20


@pytest.mark.parametrize("number", [0, -1, 10**40])
async def test_numbers_count_from_one(number: int) -> None:
    assert await code_of(stream(Account())(number, 1)) == "idempotency.key.unusable"


async def test_each_number_has_a_key_of_its_own() -> None:
    account = Account()
    add = stream(account)
    await add(1, 10)
    await add(2, 10)
    assert account.keys == [add.key(1, 10), add.key(2, 10)]
    assert len(set(account.keys)) == 2


async def test_streams_of_two_scopes_know_nothing_of_each_other() -> None:
    store, account = MemoryIdempotency(), Account()
    await stream(account, store)(1, 10)
    other = guard(
        account.add,
        store,
        scope="account-2",
        by=SequenceNumbers(lambda number, **_: number),
    )
    assert await other(1, 5) == 15


async def test_within_the_window_equal_calls_are_one() -> None:
    airline, clock = Airline(), Clock()
    store = MemoryIdempotency(clock=clock)
    notify = guard(airline.book, store, by=TimeWindow(300))
    for seconds, seat in ((0, "1"), (299, "1"), (1, "2")):
        clock.now += seconds
        assert (await notify("LH 1"))["seat"] == seat
    assert (await notify("LH 2"))["seat"] == "3"


async def test_after_the_window_the_provider_is_given_another_key() -> None:
    airline, clock = Airline(), Clock()
    notify = guard(airline.book, MemoryIdempotency(clock=clock), by=TimeWindow(1))
    await notify("LH 1")
    clock.now += 2
    await notify("LH 1")
    assert len({key for _, key in airline.booked}) == 2


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError):
        TimeWindow(0)
    with pytest.raises(UsageError):
        SequenceNumbers(lambda: 1, ttl_s=0)
    with pytest.raises(UsageError):
        guard(Airline().book, lease_s=0)


async def test_a_process_does_not_keep_what_is_over() -> None:
    airline, clock = Airline(), Clock()
    store = MemoryIdempotency(clock=clock)
    notify = guard(airline.book, store, by=TimeWindow(1), lease_s=1)
    for number in range(3000):
        clock.now += 1
        await notify(f"LH {number}")
    assert len(store._records) < 1100
    airline.errors = [RefusedError(422) for _ in range(3000)]
    book = guard(airline.book, store, in_doubt="raise")
    await asyncio.gather(*map(book, map(str, range(3000))), return_exceptions=True)
    assert len(store._records) < 2100
