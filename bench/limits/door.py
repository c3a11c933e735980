"""A door before the embedded AWS that writes down what is asked of which item."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from aiohttp import ClientSession, web

from bench.limits.place import item_kind, object_kind
from piecework.metering import capacity
from tests.doorway import handed_on, standing

#: Operation and kind of item.
Row: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class Sum:
    """What was asked of one kind of item.

    Attributes:
        requests: A transaction is shared evenly among its items.
        units: DynamoDB's, by AWS's rules; read or write, as the operation is.
        entries: Messages of batches.
        bytes: Of objects, all together.
    """

    requests: float = 0.0
    units: float = 0.0
    entries: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Door:
    """Passes on what comes, and adds it up."""

    upstream: str
    http: ClientSession
    url: str = ""
    sums: dict[Row, Sum] = field(default_factory=lambda: defaultdict(Sum))

    async def pass_on(self, request: web.Request) -> web.Response:
        """Forward a request and note it with its answer."""
        raw = await request.read()
        target = request.headers.get("X-Amz-Target", "")
        operation = target.rpartition(".")[2]
        if "DynamoDB" in target:
            raw = json.dumps({**json.loads(raw), **ASKED}).encode()
        async with self.http.request(
            request.method,
            f"{self.upstream}{request.rel_url}",
            data=raw,
            headers=handed_on(request.headers),
        ) as reply:
            body = await reply.read()
            kept = handed_on(reply.headers)
        if "DynamoDB" in target:
            self.note_table(operation, json.loads(raw), json.loads(body))
        elif operation:
            self.note_queue(operation, json.loads(raw), json.loads(body or b"{}"))
        else:
            size = len(raw) if request.method == "PUT" else len(body)
            self.note(request.method, object_kind(request.path), size=size)
        return web.Response(status=reply.status, body=body, headers=kept)

    def note_table(
        self, operation: str, asked: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> None:
        """Note a request to a table; a transaction for each of its items."""
        if "__type" in answer:
            answer = {**answer, "Error": {"Code": answer["__type"].rpartition("#")[2]}}
        units = capacity.consumed(operation, asked, answer, trusted=False)
        kinds = list(kinds_of(asked))
        for kind in kinds:
            self.note(operation, kind, 1 / len(kinds), units / len(kinds))

    def note_queue(
        self, operation: str, asked: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> None:
        """Note a request to the queue with its messages; empty receives apart."""
        entries = len(asked.get("Entries", answer.get("Messages", [])))
        kind = "queue" if entries or operation != "ReceiveMessage" else "queue, empty"
        self.note(operation, kind, entries=entries)

    def note(
        self,
        operation: str,
        kind: str,
        requests: float = 1.0,
        units: float = 0.0,
        *,
        entries: int = 0,
        size: int = 0,
    ) -> None:
        """Add up."""
        found = self.sums[operation, kind]
        found.requests += requests
        found.units += units
        found.entries += entries
        found.bytes += size


#: Asked for by everybody's meter; here it is needed whoever asks.
ASKED: Final = {"ReturnConsumedCapacity": "TOTAL"}


def kinds_of(asked: Mapping[str, Any]) -> Iterable[str]:
    """Yield the kind of each item of a request to a table."""
    if "TransactItems" in asked:
        for element in asked["TransactItems"]:
            yield from kinds_of(next(iter(element.values())))
        return
    place = asked.get("Key") or asked.get("Item")
    if place is None:
        values = asked.get("ExpressionAttributeValues", {})
        place = {"pk": values[":pk"], "sk": values.get(":prefix", {"S": ""})}
    yield item_kind(place["pk"]["S"], place["sk"]["S"])


@asynccontextmanager
async def door_to(upstream: str) -> AsyncIterator[Door]:
    """Open a door on loopback."""
    async with ClientSession(auto_decompress=False) as http:
        door = Door(upstream, http)
        async with standing(door.pass_on) as door.url:
            yield door
