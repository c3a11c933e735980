"""Guarantee: a view that is cancelled leaves nothing half done."""

from __future__ import annotations

import asyncio

from piecework.explain.situation import if_readable


async def test_a_read_that_is_cancelled_before_it_began_was_never_made() -> None:
    made = []

    async def read(what: str) -> None:
        made.append(what)

    task = asyncio.create_task(if_readable(read, "reports"))
    task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), made) == (True, [])
