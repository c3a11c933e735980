"""Work in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from piecework_worker.lease import Lease
from tests.unit.piecework.store.tables import claim
from tests.unit.virtual import run_virtually

LEASE = 60.0


def time() -> float:
    return asyncio.get_running_loop().time()


def new_lease() -> Lease:
    return Lease(claim(), "receipt", LEASE, time(), time())


async def for_ever() -> None:
    await asyncio.Event().wait()


async def cut_off_after(
    seconds: float, cut: Callable[[Lease], None], lease: Lease
) -> float:
    """Work until interrupted by a callback after some seconds; return the time."""
    began = time()
    asyncio.get_running_loop().call_later(seconds, cut, lease)
    async with lease:
        await for_ever()
    return time() - began


def virtually(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        run_virtually(test())  # type: ignore[arg-type]

    run.__name__ = test.__name__
    return run
