"""The stand-in answers through its door as the models do without one: as AWS."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bench.aws_server.router import AwsServer
from piecework_simulation.aws_server.http import Connection
from verification.conformance.probe import PROBES, load_probes, surprises
from verification.conformance.subjects import ask_all


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_every_answer_of_the_server_is_as_aws_documents_it() -> None:
    load_probes()
    assert len(PROBES) > 100
    async with served() as endpoint:
        answers = await ask_all("standin", [*PROBES.values()], endpoint)

    assert {} == surprises("standin", answers)


@asynccontextmanager
async def served() -> AsyncIterator[str]:
    """Serve a stand-in in this process, and yield where."""
    loop = asyncio.get_running_loop()
    aws_server = AwsServer(loop, time.time)
    server = await loop.create_server(
        lambda: Connection(aws_server.serve), "127.0.0.1", 0
    )
    host, port = server.sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.close()
