"""Carry a stub to the clients of SDKs: over loopback, or without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2 as httpx
from aiohttp import web

from tests.providers.stub import Asked, LostAnswerError, Stub


def unplugged(stub: Stub) -> httpx.AsyncClient:
    """Return a client of HTTP whose requests the stub serves without a socket.

    It works in virtual time, too.
    """

    async def handle(request: httpx.Request) -> httpx.Response:
        asked = Asked(
            request.method,
            request.url.path,
            dict(request.url.params),
            dict(request.headers),
            await request.aread(),
        )
        try:
            reply = await stub.handle(asked)
        except LostAnswerError as lost:
            raise httpx.ReadError("lost", request=request) from lost
        kind = {"content-type": "application/json", **reply.headers}

        async def parts() -> AsyncIterator[bytes]:
            for each in reply.parts:
                yield each

        return httpx.Response(reply.status, headers=kind, content=parts())

    return httpx.AsyncClient(transport=httpx.MockTransport(handle))


@asynccontextmanager
async def served(stub: Stub) -> AsyncIterator[str]:
    """Serve a stub on loopback; yield its address."""

    async def handle(request: web.Request) -> web.StreamResponse:
        asked = Asked(
            request.method,
            request.path,
            dict(request.query),
            {name.lower(): value for name, value in request.headers.items()},
            await request.read(),
        )
        try:
            reply = await stub.handle(asked)
        except LostAnswerError:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        response = web.StreamResponse(status=reply.status, headers=reply.headers)
        response.content_type = "application/json"
        await response.prepare(request)
        for each in reply.parts:
            await response.write(each)
        await response.write_eof()
        return response

    app = web.Application(client_max_size=512 * 1024 * 1024)
    app.add_routes([web.route("*", "/{path:.*}", handle)])
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
