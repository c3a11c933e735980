"""Guarantee: one request of a prefix goes first, and no other waits for it for long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from piecework.resilience.warming import KEPT_S, MOST_WAIT_S, PREFIXES_KEPT, Warming
from tests.virtual_time import VirtualLoop


def in_virtual_time(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test whose waits take no time."""
    loop = VirtualLoop()
    try:
        loop.run_until_complete(test())
    finally:
        loop.close()


def now() -> float:
    return asyncio.get_running_loop().time() - 1_000.0  # the virtual clock begins there


async def ask(
    warming: Warming, went: list[float], prefix: str, takes_s: float, *, fails: int = 0
) -> None:
    """Send a request; the first `fails` of all fail."""
    turn = await warming.turn(prefix)
    went.append(now())
    answered = False
    try:
        await asyncio.sleep(takes_s)
        answered = len(went) > fails
    finally:
        turn.end(answered=answered)


async def together(*requests: Awaitable[None]) -> None:
    await asyncio.gather(*requests)


def test_the_others_go_when_the_first_is_answered() -> None:
    async def test() -> None:
        warming, went, other = Warming(str), list[float](), list[float]()
        asked = [ask(warming, went, "a", 4.0) for _ in range(64)]
        await together(*asked, ask(warming, other, "b", 4.0))
        assert (went, other) == ([0.0] + [4.0] * 63, [0.0])
        await together(*(ask(warming, went, "a", 4.0) for _ in range(3)))
        assert went[-3:] == [8.0] * 3  # it is warm

    in_virtual_time(test)


def test_the_next_goes_first_when_the_first_fails() -> None:
    async def test() -> None:
        warming, went = Warming(str), list[float]()
        await together(*(ask(warming, went, "a", 2.0, fails=1) for _ in range(5)))
        assert went == [0.0, 2.0, 4.0, 4.0, 4.0]

    in_virtual_time(test)


def test_the_next_goes_first_when_the_first_is_cut_off() -> None:
    async def test() -> None:
        warming, went = Warming(str), list[float]()
        first = asyncio.create_task(ask(warming, went, "a", 9.0))
        await asyncio.sleep(0)
        others = [asyncio.create_task(ask(warming, went, "a", 1.0)) for _ in range(3)]
        await asyncio.sleep(3.0)
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        await asyncio.gather(*others)
        assert went == [0.0, 3.0, 4.0, 4.0]

    in_virtual_time(test)


def test_no_request_waits_longer_than_its_time() -> None:
    async def test() -> None:
        warming, went = Warming(str), list[float]()
        await together(*(ask(warming, went, "a", 30.0) for _ in range(5)))
        assert went == [0.0] + [MOST_WAIT_S] * 4
        # Failures one after the other do not add up.
        warming, went = Warming(str), []
        await together(*(ask(warming, went, "a", 6.0, fails=9) for _ in range(9)))
        assert max(went) == went[0] + MOST_WAIT_S

    in_virtual_time(test)


def test_a_prefix_that_may_be_forgotten_is_warmed_again() -> None:
    async def test() -> None:
        warming, went = Warming(str), list[float]()
        await ask(warming, went, "a", 1.0)
        await asyncio.sleep(KEPT_S - 2.0)
        await together(*(ask(warming, went, "a", 1.0) for _ in range(2)))
        assert went[1] == went[2]
        await asyncio.sleep(KEPT_S)
        await together(*(ask(warming, went, "a", 1.0) for _ in range(2)))
        assert went[4] == went[3] + 1.0

    in_virtual_time(test)


def test_a_first_request_that_its_loop_took_along_is_not_waited_for() -> None:
    warming, went = Warming(str), list[float]()

    async def leave() -> None:
        await warming.turn("a")

    async def test() -> None:
        await ask(warming, went, "a", 1.0)
        assert went == [0.0]

    in_virtual_time(leave)
    in_virtual_time(test)


def test_prefixes_do_not_pile_up() -> None:
    async def test() -> None:
        warming, went = Warming(str), list[float]()
        for number in range(2 * PREFIXES_KEPT):
            await ask(warming, went, str(number), 0.0)
        assert len(warming.prefixes) == PREFIXES_KEPT

    in_virtual_time(test)
