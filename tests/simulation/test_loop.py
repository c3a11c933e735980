"""The simulator's loop: processes that run in turns, freeze and die."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from random import Random

from piecework_simulation.engine.loop import BEGIN, Loop
from piecework_simulation.engine.process import Process, context_of


def loop_of(seed: int = 1) -> Loop:
    """Return a loop."""
    return Loop(Random(seed))


def started(loop: Loop, process: Process, said: list[str], *waits: float) -> None:
    """Let a process record its name and the time after each wait."""

    async def talk() -> None:
        for number, wait in enumerate(waits):
            await asyncio.sleep(wait)
            said.append(f"{process.name}{number} {loop.time() - BEGIN:g}")

    loop.create_task(talk(), context=context_of(process))


def test_time_moves_only_to_the_next_thing_that_happens() -> None:
    loop = loop_of()

    async def wait() -> float:
        await asyncio.sleep(3_600.0)
        return loop.time() - BEGIN

    assert 3_600.0 == loop.run(wait())


def test_a_frozen_process_goes_on_where_it_stopped() -> None:
    loop, said, a = loop_of(), list[str](), Process("a")

    async def act() -> None:
        started(loop, a, said, 1.0, 1.0)
        await asyncio.sleep(1.5)
        loop.freeze(a, 10.0)
        await asyncio.sleep(20.0)

    loop.run(act())
    assert ["a0 1", "a1 11.5"] == said


def test_a_dead_process_does_nothing_more_not_even_clean_up() -> None:
    loop, said, a = loop_of(), list[str](), Process("a")

    async def work() -> None:
        try:
            await asyncio.sleep(10.0)
        finally:
            said.append("cleaned up")

    async def act() -> None:
        loop.create_task(work(), context=context_of(a))
        await asyncio.sleep(1.0)
        loop.kill(a)
        await asyncio.sleep(60.0)
        assert [] == said

    loop.run(act())


def test_the_seed_decides_the_order_of_processes() -> None:
    def order(seed: int) -> str:
        loop, said = loop_of(seed), list[str]()

        async def act() -> None:
            for name in "abcdef":
                started(loop, Process(name), said, 1.0)
            await asyncio.sleep(2.0)

        loop.run(act())
        return "".join(word[0] for word in said)

    orders = [order(seed) for seed in range(8)]
    assert orders == [order(seed) for seed in range(8)]
    assert len(set(orders)) > 1


def test_a_fuse_ends_between_two_callbacks() -> None:
    loop, said, a = loop_of(), list[str](), Process("a", fuse=4)
    loop.on_fuse_end = loop.kill

    async def act() -> None:
        started(loop, a, said, 1.0, 1.0, 1.0, 1.0)
        await asyncio.sleep(60.0)

    loop.run(act())
    assert ["a0 1"] == said


def test_an_unreferenced_generator_is_closed() -> None:
    loop, said = loop_of(), list[str]()

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            await asyncio.sleep(1.0)
            said.append(f"closed {loop.time() - BEGIN:g}")

    async def act() -> None:
        async for _ in numbers():
            break
        await asyncio.sleep(2.0)

    loop.run(act())

    assert ["closed 1"] == said
