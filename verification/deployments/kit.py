"""What the pipelines of the drill do outside: acts at a service, and gates of it."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from piecework import TransientError


async def act(what: str, order: str, key: str = "", *, honours: bool = False) -> str:
    """Do something for an order at the service; return its answer.

    `honours`: the service executes one key once.
    """
    asked = {"act": what, "order": order, "key": key, "honours": honours}
    return str((await ask(asked))["answer"])


async def gate(order: str, point: str) -> None:
    """Wait at a point of a stage, as long as the service holds the order there."""
    if "again" in await ask({"gate": point, "order": order}):
        message = "The service asks to come again."
        raise TransientError(message, code="tool.drill.again", retry_after=0.2)


async def ask(request: dict[str, Any]) -> dict[str, Any]:
    """Send a request to the service; return its answer."""
    host, _, port = os.environ["DRILL_SERVICE"].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        version = os.environ["PIECEWORK_CODE_VERSION"]
        writer.write(json.dumps({**request, "version": version}).encode() + b"\n")
        line = await reader.readline()
    finally:
        writer.close()
    if not line:
        raise ConnectionResetError("The service closed the connection.")
    answer: dict[str, Any] = json.loads(line)
    return answer
