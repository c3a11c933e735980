"""Run tier one of source 004: "three attempts at 1s, 2s, 4s, capped at 30s total".

Read as three attempts in total, so that the third wait never happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from piecework import Dependency
from piecework_simulation.provider import (
    CURRENT_CALL,
    PROVIDER,
    OutgoingCall,
    ProviderError,
)

BACKOFF_S = (1.0, 2.0, 4.0)
#: "capped at 30s total"
TOTAL_S = 30.0


async def call(
    dependency: Dependency,
    function: Callable[..., Awaitable[Any]],
    *args: object,
    identity: str,
) -> Any:
    """Make a call, with retries of transient failures."""
    loop = asyncio.get_running_loop()
    until = loop.time() + TOTAL_S
    for wait in BACKOFF_S:
        last = wait == BACKOFF_S[-1] or loop.time() + wait > until
        try:
            return await once(dependency, function, args, identity)
        except ProviderError as error:
            status = error.response.status_code
            if last or (status != 429 and status < 500):
                raise
        except (TimeoutError, ConnectionError):  # "network blips"
            if last:
                raise
        await asyncio.sleep(wait)
    raise AssertionError


async def once(
    dependency: Dependency,
    function: Callable[..., Awaitable[Any]],
    args: tuple[object, ...],
    identity: str,
) -> Any:
    """Make a call once, as long as its client waits."""
    token = CURRENT_CALL.set(OutgoingCall(identity, dependency))
    try:
        async with asyncio.timeout(dependency.timeout_s):
            return await PROVIDER.get().call(function, args, {}, identity)
    finally:
        CURRENT_CALL.reset(token)
