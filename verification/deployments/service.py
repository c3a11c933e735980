"""The service of the drill: it holds orders at their moment, and keeps the book.

An order is `JOB.MOMENT`. In the first phase the service holds each order at its moment.
In the second phase it holds none. Beside version 1 it asks each version once, at each
point, to come again: the chunk goes from one version to the other.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Service:
    """The service and its book.

    Attributes:
        book: How often each act was executed, by order and act.
        held: The orders that wait at their moment.
        sending: Set when the orders in flight may send.
        second: Set when the first phase is over.
        is_beside: Whether version 1 stays in the second phase.
    """

    is_beside: bool
    book: dict[str, Counter[str]] = field(default_factory=dict)
    by_version: dict[str, Counter[str]] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    sending: asyncio.Event = field(default_factory=asyncio.Event)
    second: asyncio.Event = field(default_factory=asyncio.Event)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _answers: dict[tuple[str, str, str], str] = field(default_factory=dict)
    _refused: set[tuple[str, str, str]] = field(default_factory=set)

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer the request of a connection."""
        try:
            if line := await reader.readline():
                answer = await self.answer(json.loads(line))
                if answer is not None:
                    writer.write(json.dumps(answer).encode() + b"\n")
                    await writer.drain()
        except ConnectionError:
            pass  # its process was killed
        finally:
            writer.close()

    async def answer(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer to a request; None: the connection is closed."""
        order, moment = asked["order"], asked["order"].rpartition(".")[2]
        if "gate" in asked:
            return await self.pass_gate(order, moment, asked["gate"], asked["version"])
        answer = self.execute(asked)
        if (moment, asked["act"]) == ("flight", "charge") and not self.second.is_set():
            await self.hold(order)
            return None
        return {"answer": answer}

    def execute(self, asked: dict[str, Any]) -> str:
        """Execute an act; one that honours its key is executed once for each key."""
        order, what = asked["order"], asked["act"]
        named = order, what, asked["key"]
        if not asked["honours"] or named not in self._answers:
            done = self.book.setdefault(order, Counter())
            done[what] += 1
            versions = self.by_version.setdefault(order, Counter())
            versions[f"{what}@{asked['version']}"] += 1
            self._answers[named] = f"{what} {done[what]}"
        return self._answers[named]

    async def hold(self, order: str) -> None:
        """Hold an order until the second phase."""
        self.held.add(order)
        self._arrived.set()
        await self.second.wait()

    async def wait_for(self, orders: set[str]) -> None:
        """Wait until all these orders are held."""
        while not orders <= self.held:
            self._arrived.clear()
            await self._arrived.wait()

    async def pass_gate(
        self, order: str, moment: str, point: str, version: str
    ) -> dict[str, Any]:
        """Hold an order at its moment; return at once at any other point."""
        if self.second.is_set():
            return self.refuse_once(order, point, version)
        if moment == point:
            await self.hold(order)
            return self.refuse_once(order, point, version)
        if (moment, point) == ("flight", "before"):
            await self.sending.wait()
        return {}

    def refuse_once(self, order: str, point: str, version: str) -> dict[str, Any]:
        """Ask a version once to come again, if the other one runs beside it."""
        visit = order, point, version
        if not self.is_beside or visit in self._refused:
            return {}
        self._refused.add(visit)
        return {"again": True}


@asynccontextmanager
async def serving(*, is_beside: bool) -> AsyncIterator[tuple[Service, str]]:
    """Serve on the loopback address; yield the service and its address."""
    service = Service(is_beside)
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        yield service, f"127.0.0.1:{port}"
    finally:
        server.close()
