"""What a failed call leaves behind."""

from __future__ import annotations

import pytest

from piecework import RetryPolicy
from piecework.errors import PermanentError, UsageError
from piecework.resilience.breaker import breaker_open_error
from piecework.standalone import ByKey, MemoryIdempotency, retry
from tests.unit.piecework.idempotency.guarding import Airline, guard
from tests.unit.piecework.provider import RefusedError

ONCE = {"in_doubt": "raise"}


@pytest.mark.parametrize(
    "error", [ConnectionError("lost"), TimeoutError(), RefusedError(422), OSError()]
)
async def test_a_failure_is_not_remembered(error: Exception) -> None:
    airline = Airline(error)
    book = guard(airline.book)
    with pytest.raises(type(error)):
        await book("LH 1")
    assert (await book("LH 1"))["seat"] == "2"


async def test_a_plain_refusal_is_remembered_if_that_is_asked_for() -> None:
    airline = Airline(RefusedError(422))
    book = guard(airline.book, by=ByKey(remembers_refusals=True))
    with pytest.raises(RefusedError):
        await book("LH 1")
    with pytest.raises(PermanentError) as caught:
        await book("LH 1")
    assert caught.value.code == "tool.http.422_unprocessable"
    assert len(airline.booked) == 1


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
async def test_what_is_no_final_refusal_is_never_remembered(status: int) -> None:
    airline = Airline(RefusedError(status))
    book = guard(airline.book, by=ByKey(remembers_refusals=True))
    with pytest.raises(RefusedError):
        await book("LH 1")
    assert (await book("LH 1"))["seat"] == "2"


async def test_a_refusal_after_a_doubt_is_not_remembered() -> None:
    airline = Airline(ConnectionError("lost"), RefusedError(422))
    book = guard(airline.book, by=ByKey(remembers_refusals=True))
    for error in (ConnectionError, RefusedError):
        with pytest.raises(error):
            await book("LH 1")
    assert (await book("LH 1"))["seat"] == "3"


async def test_a_call_in_doubt_that_must_not_be_repeated_is_left_to_a_person() -> None:
    airline = Airline(ConnectionError("lost"))
    book = guard(airline.book, **ONCE)
    with pytest.raises(ConnectionError):
        await book("LH 1")
    with pytest.raises(PermanentError) as caught:
        await book("LH 1")
    assert caught.value.code == "runtime.effect.unknown"
    assert "release" in caught.value.next_step
    assert len(airline.booked) == 1


async def test_an_operator_releases_an_effect_that_did_not_happen() -> None:
    airline = Airline(ConnectionError("lost"))
    book = guard(airline.book, **ONCE)
    with pytest.raises(ConnectionError):
        await book("LH 1")
    assert await book.release("LH 1") is True
    assert (await book("LH 1"))["seat"] == "2"
    assert await book.release("LH 1") is False


@pytest.mark.parametrize(
    "error", [RefusedError(422), breaker_open_error("airline", 9.0)]
)
async def test_what_was_plainly_not_done_is_in_no_doubt(error: Exception) -> None:
    airline = Airline(error)
    book = guard(airline.book, **ONCE)
    with pytest.raises(type(error)):
        await book("LH 1")
    assert await book.release("LH 1") is False
    assert (await book("LH 1"))["seat"] == "2"


def test_a_call_that_must_not_be_repeated_has_no_retries_in_it() -> None:
    with pytest.raises(UsageError) as caught:
        guard(retry()(Airline().book), **ONCE)
    assert caught.value.code == "pipeline.declaration.invalid"
    guard(retry(RetryPolicy(attempts=1))(Airline().book), **ONCE)


async def test_a_call_in_doubt_with_other_arguments_is_an_error() -> None:
    airline, store = Airline(ConnectionError("lost")), MemoryIdempotency()
    book = guard(airline.book, store, by=ByKey(of=lambda flight: "the flight"))
    with pytest.raises(ConnectionError):
        await book("LH 1")
    with pytest.raises(PermanentError) as caught:
        await book("LH 2")
    assert caught.value.code == "idempotency.key.mismatch"


async def test_a_refusal_after_a_try_that_says_nothing_is_not_remembered() -> None:
    airline = Airline(ConnectionError("lost"), RefusedError(422))
    again = retry(RetryPolicy(base=1e-9))
    book = guard(again(airline.book), by=ByKey(remembers_refusals=True))
    with pytest.raises(RefusedError):
        await book("LH 1")
    assert await book.release("LH 1") is True
    assert (await book("LH 1"))["seat"] == "3"


async def test_refusals_all_the_way_are_a_refusal() -> None:
    airline = Airline(RefusedError(429), RefusedError(422))
    again = retry(RetryPolicy(base=1e-9))
    book = guard(again(airline.book), by=ByKey(remembers_refusals=True))
    with pytest.raises(RefusedError):
        await book("LH 1")
    assert await book.release("LH 1") is False
    with pytest.raises(PermanentError):
        await book("LH 1")


async def test_a_call_that_lacks_an_argument_leaves_nothing_behind() -> None:
    async def book(flight: str, seat: str, *, idempotency_key: str) -> str:
        return f"{flight} {seat} {len(idempotency_key)}"

    book = guard(book, by=ByKey(of=lambda flight, **_: flight))
    with pytest.raises(TypeError):
        await book("LH 1")
    assert await book("LH 1", "12 A") == "LH 1 12 A 64"
