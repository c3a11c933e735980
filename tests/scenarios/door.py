"""A door before the emulator: counts what comes in, and turns some of it away."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientSession, web

from tests.doorway import handed_on, standing

#: Of so many requests one is answered with a 500 that is not passed on.
REFUSED = 10


@dataclass
class Door:
    """What came in, and what was consumed behind it."""

    upstream: str
    http: ClientSession
    url: str = ""
    came: Counter[str] = field(default_factory=Counter)
    units: Counter[str] = field(default_factory=Counter)
    turned_away: int = 0

    async def pass_on(self, request: web.Request) -> web.Response:
        """Count a request and forward it."""
        operation = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
        operation = operation or untargeted(request)
        self.came[operation] += 1
        if self.came.total() % REFUSED == 0:
            self.turned_away += 1
            return web.Response(status=500)
        raw = await request.read()
        url, headers = f"{self.upstream}{request.rel_url}", handed_on(request.headers)
        async with self.http.request(
            request.method, url, data=raw, headers=headers
        ) as reply:
            body = await reply.read()
            kept = handed_on(reply.headers)
            kept.pop("Content-Encoding", None)
            if "DynamoDB" in request.headers.get("X-Amz-Target", ""):
                self.units[operation] += consumed(json.loads(raw), json.loads(body))
            return web.Response(status=reply.status, body=body, headers=kept)


def untargeted(request: web.Request) -> str:
    """Return what a request asks of S3; a POST is one of STS."""
    if "list-type" in request.query:
        return "ListObjectsV2"
    by_method = {"PUT": "PutObject", "GET": "GetObject", "POST": "GetCallerIdentity"}
    return by_method[request.method]


def consumed(asked: Any, answer: Any) -> int:
    """Return the units that an answer speaks of; of a refusal, those of small items."""
    told = answer.get("ConsumedCapacity")
    if told is None:
        return 2 * len(asked["TransactItems"]) if "TransactItems" in asked else 1
    tables = told if isinstance(told, list) else [told]
    return round(sum(table["CapacityUnits"] for table in tables))


@asynccontextmanager
async def door_to(upstream: str) -> AsyncIterator[Door]:
    """Open a door on loopback."""
    async with ClientSession(auto_decompress=False) as http:
        door = Door(upstream, http)
        async with standing(door.pass_on) as door.url:
            yield door
