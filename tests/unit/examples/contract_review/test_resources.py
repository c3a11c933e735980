"""One resource an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from piecework_examples.contract_review.resources import PerLoop


class Counted:
    """Counts how often a resource is opened and closed."""

    def __init__(self) -> None:
        self.opened = self.closed = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[int]:
        await asyncio.sleep(0)
        self.opened += 1
        try:
            yield self.opened
        finally:
            self.closed += 1


async def ask(resource: PerLoop[int]) -> list[int]:
    return list(await asyncio.gather(*(resource.get() for _ in range(5))))


def test_callers_of_one_loop_share_one_and_the_loop_closes_it() -> None:
    counted = Counted()
    assert [1] * 5 == asyncio.run(ask(PerLoop(counted.open)))
    assert (1, 1) == (counted.opened, counted.closed)


def test_another_loop_opens_its_own() -> None:
    counted = Counted()
    resource = PerLoop(counted.open)
    assert [1] * 5 == asyncio.run(ask(resource))
    assert [2] * 5 == asyncio.run(ask(resource))
    assert (2, 2) == (counted.opened, counted.closed)


def test_a_failure_to_open_is_raised_and_tried_again() -> None:
    tries = 0

    @asynccontextmanager
    async def opener() -> AsyncIterator[int]:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ConnectionRefusedError
        yield tries

    async def twice() -> int:
        resource = PerLoop(opener)
        with pytest.raises(ConnectionRefusedError):
            await resource.get()
        return await resource.get()

    assert 2 == asyncio.run(twice())
