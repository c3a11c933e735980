"""A proxy before the emulator: counts requests, and refuses some of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientSession, web

from tests.forwarding import end_to_end, serving

#: Of so many requests one is answered with a 500 that is not passed on.
REFUSED = 10


@dataclass
class CountingProxy:
    """The requests received, and the units that they consumed."""

    upstream: str
    http: ClientSession
    url: str = ""
    received: Counter[str] = field(default_factory=Counter)
    units: Counter[str] = field(default_factory=Counter)
    refused: int = 0

    async def pass_on(self, request: web.Request) -> web.Response:
        """Count a request and forward it."""
        operation = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
        operation = operation or untargeted(request)
        self.received[operation] += 1
        if self.received.total() % REFUSED == 0:
            self.refused += 1
            return web.Response(status=500)
        raw = await request.read()
        url, headers = f"{self.upstream}{request.rel_url}", end_to_end(request.headers)
        async with self.http.request(
            request.method, url, data=raw, headers=headers
        ) as reply:
            body = await reply.read()
            kept = end_to_end(reply.headers)
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
async def proxy_to(upstream: str) -> AsyncIterator[CountingProxy]:
    """Start a proxy on loopback."""
    async with ClientSession(auto_decompress=False) as http:
        proxy = CountingProxy(upstream, http)
        async with serving(proxy.pass_on) as proxy.url:
            yield proxy
