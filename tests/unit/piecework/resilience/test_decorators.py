"""The parts around any async function: retries and a breaker, outside a worker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog

from piecework import CircuitBreaker
from piecework.domain.keys import sha256
from piecework.errors import PermanentError, TransientError
from piecework.standalone import MemoryIdempotency, circuit_breaker, idempotent, retry
from tests.unit.piecework.fakes import Lowest
from tests.unit.piecework.idempotency.guarding import Airline
from tests.unit.virtual import run_virtually

LOST = [ConnectionError("lost"), ConnectionError("lost")]
QUICK = CircuitBreaker(minimum_calls=2, open_s=30)


def test_a_transient_failure_is_tried_again_and_a_permanent_one_is_not() -> None:
    async def main() -> None:
        airline = Airline(*LOST)
        assert (await retry()(airline.book)("LH 1"))["seat"] == "3"
        airline = Airline(PermanentError("no"))
        with pytest.raises(PermanentError):
            await retry()(airline.book)("LH 1")
        assert len(airline.booked) == 1

    run_virtually(main())


def test_an_attempt_that_takes_too_long_is_cut_off_and_made_again() -> None:
    async def main() -> None:
        seconds = [100.0, 1.0]

        async def ask() -> str:
            await asyncio.sleep(seconds.pop(0))
            return "answer"

        assert await retry(timeout_s=5, rng=Lowest())(ask)() == "answer"

    run_virtually(main())


async def test_each_attempt_is_an_event_with_the_hash_of_its_key() -> None:
    airline = Airline(ConnectionError("lost"))
    book = idempotent(MemoryIdempotency(), scope="user-7", operation="book")(
        retry(rng=Lowest())(airline.book)
    )
    said: list[Any] = []
    structlog.configure(processors=[lambda _, __, event: said.append(event) or "said"])
    await book("LH 1")
    structlog.reset_defaults()
    attempts = [event for event in said if event["event"] == "call.attempt"]
    assert [each["attempt_number"] for each in attempts] == [1, 2]
    assert [each["outcome"] for each in attempts] == ["failed", "answered"]
    assert attempts[0]["error_code"] == "tool.connection.failed"
    hashed = sha256(book.key("LH 1").encode())[:12]
    assert {each["idempotency_key_hash"] for each in attempts} == {hashed}


async def test_retries_inside_idempotent_keep_one_key() -> None:
    airline = Airline(*LOST)
    book = idempotent(MemoryIdempotency(), scope="user-7", operation="book")(
        retry(rng=Lowest())(airline.book)
    )
    await book("LH 1")
    await book("LH 1")
    assert {key for _, key in airline.booked} == {book.key("LH 1")}
    assert len(airline.booked) == 3


async def test_without_a_log_that_was_set_up_nothing_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    structlog.reset_defaults()
    await retry(rng=Lowest())(Airline(ConnectionError()).book)("LH 1")
    assert ("", "") == capsys.readouterr()


def test_an_open_breaker_fails_at_once_and_lets_one_probe_through() -> None:
    async def main() -> None:
        airline = Airline(*LOST)
        book = circuit_breaker(QUICK, name="airline", rng=Lowest())(airline.book)
        for _ in range(2):
            with pytest.raises(ConnectionError):
                await book("LH 1")
        with pytest.raises(TransientError) as caught:
            await book("LH 1")
        assert caught.value.code == "runtime.breaker.open"
        assert caught.value.retry_after == pytest.approx(30)
        await asyncio.sleep(30)
        assert (await book("LH 1"))["seat"] == "3"
        assert (await book("LH 1"))["seat"] == "4"

    run_virtually(main())


async def test_functions_of_one_service_share_its_breaker() -> None:
    airline, other = Airline(*LOST), Airline()
    service = circuit_breaker(QUICK, name="airline")
    book, cancel = service(airline.book), service(other.book)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            await book("LH 1")
    with pytest.raises(TransientError):
        await cancel("LH 1")
    assert other.booked == []


@pytest.mark.parametrize("wrap", [retry(), circuit_breaker(QUICK, name="service")])
async def test_a_wrapped_function_keeps_its_name_and_is_a_coroutine_function(
    wrap: Any,
) -> None:
    async def ask() -> None:
        """Ask."""

    wrapped = wrap(ask)
    assert (wrapped.__name__, wrapped.__doc__) == ("ask", "Ask.")
    assert asyncio.iscoroutinefunction(wrapped)
