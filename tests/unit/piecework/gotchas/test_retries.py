"""The gotchas of trying again."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable
from unittest.mock import Mock

import pytest

from piecework import Dependency, RetryPolicy
from piecework.resilience.breaker import breaker_open_error
from tests.unit.piecework.fakes import Highest
from tests.unit.piecework.gotchas.retriers import (
    PATIENT,
    Retrier,
    first_waits,
    ours,
)
from tests.unit.piecework.retrying import Call

Check = Callable[[Retrier], Awaitable[None]]

NEVER = 60  # failures: more than any caller's attempts


class HTTPStatusError(Exception):
    """As httpx has it."""

    def __init__(self, status: int) -> None:
        super().__init__("please retry, rate limit, timeout")  # never read
        self.response = Mock(
            spec=["status_code", "headers"], status_code=status, headers={}
        )


#: The table of what is tried again, of the source and of the error it names.
RETRIED = [
    *(HTTPStatusError(status) for status in (408, 429, 500, 502, 503, 504)),
    ConnectionResetError(),
    TimeoutError(),
    socket.gaierror(socket.EAI_NONAME, "no name"),
    ssl.SSLError("handshake"),
]
NOT_RETRIED = [HTTPStatusError(s) for s in (400, 401, 403, 404, 409, 422)]


async def only_what_may_pass_is_tried_again(retrier: Retrier) -> None:
    """Retrying 400s; 4xx but 429 are not retried; 5xx and network errors are."""
    made = {}
    for error in [*RETRIED, *NOT_RETRIED]:
        call = Call(error, error)
        await retrier(call, Highest())
        made[error] = call.made

    assert [True] * len(RETRIED) == [made[error] > 1 for error in RETRIED]
    assert [1] * len(NOT_RETRIED) == [made[error] for error in NOT_RETRIED]


async def an_open_breaker_is_not_tried_again(retrier: Retrier) -> None:
    """A breaker that is open is a state, and no blip."""
    call = Call(breaker_open_error("bank", 30.0), breaker_open_error("bank", 30.0))
    await retrier(call, Highest())

    assert 1 == call.made


async def it_comes_to_an_end(retrier: Retrier) -> None:
    """Max retry limit is set."""
    call = Call(*(TimeoutError() for _ in range(NEVER)))
    await retrier(call, Highest())

    assert 1 < call.made <= 20


async def waits_double(retrier: Retrier) -> None:
    """Exponential backoff implemented."""
    waits = await retrier(Call(*(TimeoutError() for _ in range(NEVER))), Highest())

    assert [1.0, 2.0, 4.0, 8.0, 16.0] == waits[:5]


async def no_wait_is_longer_than_the_cap(retrier: Retrier) -> None:
    """Max delay cap prevents infinite waits."""
    waits = await retrier(Call(*(TimeoutError() for _ in range(NEVER))), Highest())

    assert 30.0 == max(waits)


async def clients_that_fail_together_do_not_come_back_together(
    retrier: Retrier,
) -> None:
    """No jitter; full jitter added to prevent a thundering herd.

    Of 1,000 clients about 100 come back in each tenth of the first wait's range.
    """
    waits = [(await retrier(Call(TimeoutError()), r))[0] for r in first_waits(1_000)]
    tenths = [int(wait * 10) for wait in waits]
    crowds = [tenths.count(tenth) for tenth in range(10)]

    assert 60 <= min(crowds)
    assert max(crowds) <= 140


ALL: list[Check] = [
    only_what_may_pass_is_tried_again,
    it_comes_to_an_end,
    waits_double,
    no_wait_is_longer_than_the_cap,
    clients_that_fail_together_do_not_come_back_together,
]


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)
async def test_a_sound_retrier_passes(check: Check) -> None:
    await check(ours(PATIENT))


async def test_ours_does_not_try_an_open_breaker_again() -> None:
    await an_open_breaker_is_not_tried_again(ours(RetryPolicy()))


def test_a_model_is_given_more_time_than_a_tool() -> None:
    model = Dependency("model", layer="llm").retry
    tool = Dependency("tool").retry

    assert (1.0, 4, 30.0) == (model.base, model.attempts, model.cap)
    assert (0.25, 5, 30.0) == (tool.base, tool.attempts, tool.cap)


def test_what_a_dependency_says_itself_holds_whatever_its_layer() -> None:
    said = RetryPolicy(attempts=2)

    assert said is Dependency("model", layer="llm", retry=said).retry
    assert Dependency("model", layer="llm", retry=RetryPolicy()).retry.attempts == 5
