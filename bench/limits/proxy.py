"""Record the requests to each kind of item, in a proxy to the embedded AWS."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from aiohttp import ClientSession, web

from piecework.cost import units as capacity
from piecework.domain import keys
from tests.forwarding import end_to_end, serving

#: Operation and kind of item.
Row: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class RequestTotals:
    """The totals of one kind of item.

    Attributes:
        requests: A transaction counts as an equal share for each of its items.
        units: DynamoDB read or write units, by AWS's rules.
        entries: The messages of batches.
        bytes: The total size of objects.
    """

    requests: float = 0.0
    units: float = 0.0
    entries: int = 0
    bytes: int = 0


@dataclass(slots=True)
class RecordingProxy:
    """Forwards requests and adds them up."""

    upstream: str
    http: ClientSession
    url: str = ""
    totals: dict[Row, RequestTotals] = field(
        default_factory=lambda: defaultdict(RequestTotals)
    )

    async def forward(self, request: web.Request) -> web.Response:
        """Forward a request and note it with its answer."""
        raw = await request.read()
        target = request.headers.get("X-Amz-Target", "")
        operation = target.rpartition(".")[2]
        if "DynamoDB" in target:
            raw = json.dumps({**json.loads(raw), **CAPACITY_PARAMETER}).encode()
        async with self.http.request(
            request.method,
            f"{self.upstream}{request.rel_url}",
            data=raw,
            headers=end_to_end(request.headers),
        ) as reply:
            body = await reply.read()
            kept = end_to_end(reply.headers)
        if "DynamoDB" in target:
            self.record_table_request(operation, json.loads(raw), json.loads(body))
        elif operation:
            self.record_queue_request(
                operation, json.loads(raw), json.loads(body or b"{}")
            )
        else:
            size = len(raw) if request.method == "PUT" else len(body)
            self.add_totals(request.method, object_kind(request.path), size=size)
        return web.Response(status=reply.status, body=body, headers=kept)

    def record_table_request(
        self, operation: str, request: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> None:
        """Record a request to a table; a transaction counts for each of its items."""
        if "__type" in answer:
            answer = {**answer, "Error": {"Code": answer["__type"].rpartition("#")[2]}}
        units = capacity.consumed(operation, request, answer, trusted=False)
        kinds = list(item_kinds(request))
        for kind in kinds:
            self.add_totals(operation, kind, 1 / len(kinds), units / len(kinds))

    def record_queue_request(
        self, operation: str, request: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> None:
        """Note a request to the queue with its messages; empty receives apart."""
        entries = len(request.get("Entries", answer.get("Messages", [])))
        kind = "queue" if entries or operation != "ReceiveMessage" else "queue, empty"
        self.add_totals(operation, kind, entries=entries)

    def add_totals(
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
        found = self.totals[operation, kind]
        found.requests += requests
        found.units += units
        found.entries += entries
        found.bytes += size


#: The product's meters request this; the recording needs it for every request.
CAPACITY_PARAMETER: Final = {"ReturnConsumedCapacity": "TOTAL"}


def item_kinds(request: Mapping[str, Any]) -> Iterable[str]:
    """Yield the kind of each item of a request to a table."""
    if "TransactItems" in request:
        for element in request["TransactItems"]:
            yield from item_kinds(next(iter(element.values())))
        return
    if "Statements" in request:  # insertions, each with its key first
        for statement in request["Statements"]:
            pk, sk = statement["Parameters"][:2]
            yield item_kind(pk["S"], sk["S"])
        return
    place = request.get("Key") or request.get("Item")
    if place is None:
        values = request.get("ExpressionAttributeValues", {})
        place = {"pk": values[":pk"], "sk": values.get(":prefix", {"S": ""})}
    yield item_kind(place["pk"]["S"], place["sk"]["S"])


@asynccontextmanager
async def open_proxy(upstream: str) -> AsyncIterator[RecordingProxy]:
    """Open a recording proxy on loopback."""
    async with ClientSession(auto_decompress=False) as http:
        proxy = RecordingProxy(upstream, http)
        async with serving(proxy.forward) as proxy.url:
            yield proxy


# ── classify the item of a request by its key ─────────────────────────────────

#: Items outside of all jobs, by their partition key.
ALONE: Final = (keys.ACTIVE_PK, keys.BREAKERS_PK, keys.EXPIRY_PK)
#: A chunk's rows are in its group's partition; other rows are in the job's.
OF_A_GROUP: Final = ("CHUNK", "RESULT", "WORK", "TALLY")
_GROUP: Final = re.compile(r"#G#[0-9]+\Z")


def item_kind(pk: str, sk: str) -> str:
    """Return the kind of an item, or of the items of a query."""
    if pk in ALONE:
        return pk
    if pk.endswith(("#JOBS", "#WEBHOOKS")):
        return pk.rpartition("#")[2]
    first, _, rest = sk.partition("#")
    if first == "WORK":
        first = rest.partition("#")[2].partition("#")[0] or "WORK"
        return f"group {first}"
    of_a_group = first in OF_A_GROUP and rest != "JOIN"
    return f"{'group' if of_a_group or _GROUP.search(pk) else 'job'} {first}"


def object_kind(path: str) -> str:
    """Return the kind of an object, from a path such as `/bucket/tenants/...`."""
    found = re.search(r"/jobs/[^/]+/([a-z]+)/", path)
    return f"object {found[1]}" if found else "object"
