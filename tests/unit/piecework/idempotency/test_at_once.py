"""Equal calls at the same time, and calls that are cut off; in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from piecework.errors import PermanentError, StoreError, TransientError
from piecework.idempotency.record import BeginRequest, State
from piecework.standalone import MemoryIdempotency, TimeWindow
from tests.unit.piecework.idempotency.guarding import guard
from tests.unit.virtual import run_virtually


class Slow:
    """Takes its time, a little more with each call."""

    def __init__(self, *seconds: float, fails: bool = False) -> None:
        self.seconds = list(seconds)
        self.fails = fails
        self.began = 0

    async def book(self, flight: str) -> int:
        self.began += 1
        number = self.began
        await asyncio.sleep(self.seconds.pop(0) if self.seconds else 1.0)
        if self.fails and number == 1:
            raise ConnectionError("lost")
        return number


def memory() -> MemoryIdempotency:
    """A store on the loop's clock."""
    return MemoryIdempotency(clock=lambda: asyncio.get_running_loop().time())


def test_duplicates_wait_for_the_first() -> None:
    async def main() -> None:
        slow = Slow(5.0)
        book = guard(slow.book, memory())
        assert await asyncio.gather(*(book("LH 1") for _ in range(4))) == [1] * 4
        assert slow.began == 1

    run_virtually(main())


def test_duplicates_are_reported_on_request() -> None:
    async def main() -> None:
        book = guard(Slow(5.0).book, memory(), duplicates="raise", lease_s=60)
        first = asyncio.create_task(book("LH 1"))
        await asyncio.sleep(1)
        with pytest.raises(TransientError) as caught:
            await book("LH 1")
        assert caught.value.code == "idempotency.key.in_progress"
        assert caught.value.retry_after == pytest.approx(59)
        assert await first == 1

    run_virtually(main())


def test_a_waiting_call_is_made_when_the_first_fails() -> None:
    async def main() -> None:
        book = guard(Slow(5.0, fails=True).book, memory())
        ends = await asyncio.gather(book("LH 1"), book("LH 1"), return_exceptions=True)
        assert [type(ends[0]), ends[1]] == [ConnectionError, 2]

    run_virtually(main())


def test_a_call_is_cut_off_at_the_end_of_its_lease_and_not_before() -> None:
    async def main() -> None:
        began = asyncio.get_running_loop().time()
        book = guard(Slow(9.9, 10.1).book, memory(), lease_s=10)
        assert await book("LH 1") == 1
        assert asyncio.get_running_loop().time() - began == pytest.approx(9.9)
        with pytest.raises(TimeoutError):
            await book("LH 2")

    run_virtually(main())


def test_a_lease_runs_from_its_request_not_from_the_stores_answer() -> None:
    class Far(MemoryIdempotency):
        async def begin(self, request: Any) -> Any:
            verdict = await super().begin(request)
            await asyncio.sleep(4)
            return verdict

    async def main() -> None:
        store = Far(clock=lambda: asyncio.get_running_loop().time())
        with pytest.raises(TimeoutError):
            await guard(Slow(7.0).book, store, lease_s=10)("LH 1")

    run_virtually(main())


def test_a_duplicate_asks_a_slow_store_not_beyond_its_wait() -> None:
    class Far(MemoryIdempotency):
        begun = 0

        async def begin(self, request: Any) -> Any:
            verdict = await super().begin(request)
            self.begun += 1
            await asyncio.sleep(25.0 * (self.begun > 1))
            return verdict

    async def main() -> None:
        store = Far(clock=lambda: asyncio.get_running_loop().time())
        book = guard(Slow(5.0).book, store, lease_s=10)
        first = asyncio.create_task(book("LH 1"))
        await asyncio.sleep(1)
        with pytest.raises(TransientError):
            await book("LH 1")
        assert (await first, store.begun) == (1, 2)

    run_virtually(main())


def test_after_a_caller_that_was_cut_off_the_lease_runs_out_first() -> None:
    async def main() -> None:
        slow, began = Slow(60.0, 0.0), asyncio.get_running_loop().time()
        book = guard(slow.book, memory(), lease_s=10)
        first = asyncio.create_task(book("LH 1"))
        await asyncio.sleep(1)
        first.cancel()
        assert await book("LH 1") == 2
        assert asyncio.get_running_loop().time() - began >= 10

    run_virtually(main())


def test_after_it_a_non_repeatable_call_is_left_to_an_operator() -> None:
    async def main() -> None:
        book = guard(Slow(60.0).book, memory(), lease_s=10, in_doubt="raise")
        first = asyncio.create_task(book("LH 1"))
        await asyncio.sleep(1)
        first.cancel()
        with pytest.raises(PermanentError) as caught:
            await book("LH 1")
        assert caught.value.code == "runtime.effect.unknown"

    run_virtually(main())


def test_a_duplicate_does_not_wait_for_ever() -> None:
    class Busy(MemoryIdempotency):
        async def begin(self, asked: BeginRequest) -> Any:
            from piecework.idempotency.record import InProgress

            return InProgress(1.0)

    async def main() -> None:
        began = asyncio.get_running_loop().time()
        with pytest.raises(TransientError):
            await guard(Slow().book, Busy(), lease_s=10)("LH 1")
        assert 20 <= asyncio.get_running_loop().time() - began < 22

    run_virtually(main())


class Away(MemoryIdempotency):
    """Cannot be reached: from the start, or when a record must be written."""

    def __init__(self, verb: str) -> None:
        super().__init__()
        self.verb = verb

    async def begin(self, asked: BeginRequest) -> Any:
        if self.verb == "begin":
            raise StoreError("away", code="aws.service.unavailable")
        return await MemoryIdempotency.begin(self, asked)

    async def settle(
        self, asked: BeginRequest, state: State, value: str | None = None
    ) -> bool:
        if self.verb == "settle":
            raise StoreError("away", code="aws.service.unavailable")
        return False


async def test_without_its_store_a_call_is_not_made() -> None:
    slow = Slow(0.0)
    with pytest.raises(StoreError):
        await guard(slow.book, Away("begin"))("LH 1")
    assert slow.began == 0


async def test_within_a_window_a_call_is_made_though_the_store_is_away() -> None:
    assert await guard(Slow(0.0).book, Away("begin"), by=TimeWindow())("LH 1") == 1


@pytest.mark.parametrize("verb", ["settle", "lost"])
async def test_an_answer_that_cannot_be_written_down_is_not_lost_to_its_caller(
    verb: str,
) -> None:
    assert await guard(Slow(0.0).book, Away(verb))("LH 1") == 1
