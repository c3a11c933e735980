"""The key of a call, and what the same key means."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.errors import PermanentError, UsageError
from piecework.standalone import ByKey, MemoryIdempotency
from tests.unit.piecework.idempotency.guarding import Airline, Clock, guard


async def test_an_equal_call_is_answered_by_the_first() -> None:
    airline = Airline()
    book = guard(airline.book)
    first = await book("LH 1")
    assert first == await book("LH 1")
    assert len(airline.booked) == 1


async def test_the_function_is_given_its_key_and_it_is_the_same_each_time() -> None:
    airline, store = Airline(ConnectionError("lost")), MemoryIdempotency()
    book = guard(airline.book, store)
    with pytest.raises(ConnectionError):
        await book("LH 1")
    await book("LH 1")
    assert airline.booked == [("LH 1", book.key("LH 1"))] * 2
    assert len(book.key("LH 1")) == 64


async def test_a_function_without_the_parameter_is_not_given_it() -> None:
    async def ask(flight: str) -> str:
        return flight

    assert await guard(ask)("LH 1") == "LH 1"


def test_the_same_call_has_the_same_key_however_it_is_written() -> None:
    async def ask(flight: str, seats: int = 1) -> None: ...

    book = guard(ask)
    assert book.key("LH 1", 2) == book.key(seats=2, flight="LH 1")


def test_the_key_is_the_same_in_every_process() -> None:
    async def ask(flight: str) -> None: ...

    expected = "0c4e"
    assert guard(ask, operation="book").key("LH 1")[:4] == expected


@pytest.mark.parametrize(
    "other",
    [{"scope": "user-8/task-3"}, {"operation": "cancel"}],
    ids=lambda facts: next(iter(facts)),
)
def test_another_user_or_operation_is_another_key(other: dict[str, str]) -> None:
    airline = Airline()
    assert guard(airline.book).key("LH 1") != guard(airline.book, **other).key("LH 1")


def test_another_tenant_has_other_keys_for_the_provider_too() -> None:
    acme, other = MemoryIdempotency("acme"), MemoryIdempotency("other")
    book = Airline().book
    assert guard(book, acme).key("LH 1") != guard(book, other).key("LH 1")


async def test_the_scope_may_come_from_the_arguments() -> None:
    async def pay(state: dict[str, str]) -> str:
        return state["user"]

    paid = guard(pay, scope=lambda state: state["user"], by=ByKey(of=lambda state: 1))
    assert [await paid({"user": name}) for name in ("a", "b", "a")] == ["a", "b", "a"]


async def test_the_same_key_with_other_arguments_is_an_error() -> None:
    async def pay(order: str, amount: int) -> int:
        return amount

    paid = guard(pay, by=ByKey(of=lambda order, **_: order))
    assert await paid("order-1", 100) == 100
    with pytest.raises(PermanentError) as caught:
        await paid("order-1", 999)
    assert caught.value.code == "idempotency.key.mismatch"
    assert await paid("order-2", 999) == 999


async def test_an_answer_is_forgotten_when_its_time_is_over() -> None:
    airline, clock = Airline(), Clock()
    book = guard(airline.book, MemoryIdempotency(clock=clock), by=ByKey(ttl_s=10))
    await book("LH 1")
    clock.now += 9.9
    await book("LH 1")
    assert len(airline.booked) == 1
    clock.now += 0.1
    await book("LH 1")
    assert len(airline.booked) == 2


def test_answers_are_kept_for_a_day_unless_it_is_said_otherwise() -> None:
    assert ByKey().ttl_s == 24 * 3600


@pytest.mark.parametrize("seconds", [0, -1, 1e12, float("nan"), "300"])
def test_a_time_to_live_without_an_end_is_refused(seconds: Any) -> None:
    with pytest.raises(UsageError) as caught:
        ByKey(ttl_s=seconds)
    assert caught.value.code == "pipeline.declaration.invalid"


@pytest.mark.parametrize("argument", [object(), iter([1]), {object()}])
async def test_an_argument_that_makes_no_key_is_refused_before_the_call(
    argument: object,
) -> None:
    airline = Airline()
    with pytest.raises(PermanentError) as caught:
        await guard(airline.book)(argument)
    assert caught.value.code == "idempotency.key.unusable"
    assert airline.booked == []


@pytest.mark.parametrize("facts", [{"scope": ""}, {"scope": lambda flight: ""}])
async def test_a_call_without_a_name_is_refused(facts: dict[str, str]) -> None:
    with pytest.raises(PermanentError) as caught:
        await guard(Airline().book, **facts)("LH 1")
    assert caught.value.code == "idempotency.key.unusable"


@pytest.mark.parametrize("nothing", [None, ""])
async def test_a_key_of_nothing_is_refused(nothing: str | None) -> None:
    with pytest.raises(PermanentError) as caught:
        await guard(Airline().book, by=ByKey(of=lambda flight: nothing))("LH 1")
    assert caught.value.code == "idempotency.key.unusable"


async def test_a_key_that_the_caller_brings_is_refused_rather_than_replaced() -> None:
    with pytest.raises(PermanentError) as caught:
        await guard(Airline().book)("LH 1", idempotency_key="mine")
    assert caught.value.code == "idempotency.key.unusable"


async def test_the_answer_is_what_was_stored_also_the_first_time() -> None:
    async def ask() -> tuple[int, ...]:
        return (1, 2)

    assert [await guard(ask)() for _ in range(2)] == [(1, 2)] * 2


async def test_a_call_whose_answer_cannot_be_stored_is_not_made_again() -> None:
    made = []

    async def ask() -> int:
        made.append(1)
        return "no number"  # type: ignore[return-value]

    asked = guard(ask)
    codes = []
    for _ in range(2):
        with pytest.raises(PermanentError) as caught:
            await asked()
        codes.append(caught.value.code)
    expected = ["runtime.value.unserialisable", "idempotency.answer.not_kept"]
    assert codes == expected
    assert made == [1]
