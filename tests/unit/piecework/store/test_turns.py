"""Transactions of a process that share an item follow each other."""

from __future__ import annotations

import asyncio
from random import Random

from piecework.store.turns import Place, Turns


def place(sk: str) -> Place:
    return "t", "p", sk


async def test_transactions_on_one_item_follow_each_other_in_their_order() -> None:
    turns, log = Turns(), list[str]()

    async def transact(name: str, *items: str) -> None:
        async with turns.at(map(place, items)):
            log.append(f"{name} begins")
            await asyncio.sleep(0)
            log.append(f"{name} ends")

    await asyncio.gather(
        transact("1", "a", "b"), transact("2", "b"), transact("3", "c")
    )
    assert [line for line in log if line[0] in "12"] == [
        "1 begins",
        "1 ends",
        "2 begins",
        "2 ends",
    ]
    assert log.index("3 begins") < log.index("1 ends")


async def test_no_two_transactions_wait_for_each_other() -> None:
    """They name their items in any order, and some are cut off."""
    turns, rng = Turns(), Random(1)
    held: set[str] = set()

    async def transact() -> None:
        items = rng.sample("abcdef", rng.randint(1, 4))
        async with turns.at(map(place, items)):
            assert not held & set(items)
            held.update(items)
            try:
                await asyncio.sleep(0)
            finally:
                held.difference_update(items)

    tasks = [asyncio.create_task(transact()) for _ in range(200)]
    await asyncio.sleep(0)
    for task in rng.sample(tasks, 40):
        task.cancel()
    async with asyncio.timeout(10):
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    unexpected = [e for e in ends if e and not isinstance(e, asyncio.CancelledError)]
    assert not unexpected
    assert not held
