"""A proxy in front of an emulator, on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeAlias

from aiohttp import web

LOOPBACK = "127.0.0.1"
#: Headers of one connection; the server reads the body before it answers `Expect`.
HOP = {"host", "content-length", "transfer-encoding", "connection", "expect"}
#: The largest accepted request: an object of a large job.
MOST_BYTES = 2**30

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """Let a function answer all requests on a free port; yield the address."""
    app = web.Application(client_max_size=MOST_BYTES)
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, 0).start()
        yield f"http://{LOOPBACK}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def end_to_end(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the end-to-end headers: those of one connection are not forwarded."""
    return {k: v for k, v in headers.items() if k.lower() not in HOP}
