"""The checklist of circuit breakers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from piecework import Dependency, Fallback, RetryPolicy
from piecework.calls.fleet_breaker import BreakerRegistry
from piecework.errors import PieceworkError
from tests.unit.piecework.fakes import NOW, SCOPE, Log, caller
from tests.unit.piecework.gotchas.breakers import FAILED, REFUSED, WELL, Fuse
from tests.unit.piecework.provider import Provider, call

Make = Callable[[], Fuse]
Check = Callable[[Make], None]


def calls(fuse: Fuse, how: str, number: int, now: float) -> int:
    """Make so many calls, a second apart or less; return how many were let through."""
    through = 0
    for _ in range(number):
        made = fuse.lets_through(now)
        if made is not None:
            through += 1
            fuse.ended(made, how, now)
    return through


def an_outage_is_noticed(make: Make) -> None:
    """BreakerState breaker on each external dependency."""
    assert calls(make(), FAILED, 1_000, now=0.0) <= 100


def a_few_failures_among_many_calls_are_none(make: Make) -> None:
    """Failure threshold tuned for the service: a share, and of enough calls."""
    fuse = make()
    through = [
        calls(fuse, FAILED if n % 20 == 0 else WELL, 1, 0.1 * n) for n in range(400)
    ]

    assert 400 == sum(through)


def what_was_asked_wrongly_is_no_outage(make: Make) -> None:
    """Excluded errors do not count: a 4xx says nothing of the service's health."""
    assert 100 == calls(make(), REFUSED, 100, now=0.0)


def it_is_left_alone_until_its_time_is_over(make: Make) -> None:
    """Recovery timeout allows service to stabilise."""
    fuse = make()
    calls(fuse, FAILED, 100, now=0.0)

    assert 0 == calls(fuse, WELL, 10, now=29.0)
    assert 10 == calls(fuse, WELL, 10, now=31.0)


def one_call_is_tried_and_not_all_at_once(make: Make) -> None:
    """Half-open: a service that has just come back is not hit by everybody."""
    fuse = make()
    calls(fuse, FAILED, 100, now=0.0)
    tried = [fuse.lets_through(31.0) for _ in range(50)]

    assert 49 == tried.count(None)


ALL: list[Check] = [
    an_outage_is_noticed,
    a_few_failures_among_many_calls_are_none,
    what_was_asked_wrongly_is_no_outage,
    it_is_left_alone_until_its_time_is_over,
    one_call_is_tried_and_not_all_at_once,
]


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)
def test_a_sound_breaker_passes(check: Check) -> None:
    check(Fuse)


def test_a_dependency_has_a_breaker_unless_it_says_otherwise() -> None:
    assert Dependency("model", layer="llm").breaker is not None
    assert Dependency("bank").breaker is not None
    assert Dependency("bank", breaker=None).breaker is None


async def known(_: int) -> str:
    return "what we know"


async def test_a_dependency_with_a_chain_answers_behind_an_open_breaker() -> None:
    """Open circuit has graceful fallback."""
    once = RetryPolicy(attempts=1)
    dependency = Dependency("model", retry=once, fallback=[Fallback(None, known)])
    down = Provider(*(TimeoutError() for _ in range(500)))
    breakers = BreakerRegistry(clock=lambda: NOW, rng=Random(7), log=Log())
    made_by = caller(breakers=breakers)
    answers: list[Any] = []
    for number in range(40):
        try:
            scope = replace(SCOPE, chunk=number)
            answers.append(await call(made_by, dependency, down, number, scope=scope))
        except (TimeoutError, PieceworkError):
            answers.append(None)
        await asyncio.sleep(0)

    assert answers[-1] == "what we know"
