"""The agent of ECS: its answers may come in pieces, and need not make sense."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from piecework_worker.ecs import AgentError, request


async def test_an_answer_of_the_agent_may_come_in_pieces() -> None:
    body = b'{"TaskARN": "arn:aws:ecs:eu:1:task/c/abc"}'
    served = asyncio.Event()

    async def serve(came: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        await came.readuntil(b"\r\n\r\n")
        to.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
        for piece in (body[:20], body[20:]):
            to.write(piece)
            await to.drain()
            await asyncio.sleep(0.01)
        to.close()
        await to.wait_closed()
        served.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        found = await request(f"http://127.0.0.1:{port}/task")
        await served.wait()

    assert "arn:aws:ecs:eu:1:task/c/abc" == found["TaskARN"]


async def test_an_answer_of_the_agent_may_be_nested_as_deep_as_it_likes() -> None:
    async def deep(_: web.Request) -> web.Response:
        return web.Response(text="[" * 60_000)

    app = web.Application()
    app.router.add_get("/task", deep)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        with pytest.raises(AgentError, match="RecursionError"):
            await request(f"http://127.0.0.1:{port}/task")
    finally:
        await runner.cleanup()
