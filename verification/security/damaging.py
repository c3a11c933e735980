"""Items, rows and objects that were edited by hand, before a worker reads them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from piecework.aws.queue import Message, read
from piecework.domain import keys
from piecework.domain.refs import JobRef
from piecework.reconciler.loop import reconcile_once
from piecework_worker.services import open_services
from piecework_worker.worker import Worker
from verification.security.aws import Cloud
from verification.security.receiving import PIPELINE, Log, Note

REF = JobRef("acme", "j")
#: What a field becomes, in DynamoDB's own words; None: it is taken out.
WRONG: tuple[dict[str, Any] | None, ...] = (
    None,
    {"S": "x"},
    {"S": "../../../globex/jobs/j/payload/pack/0+5"},
    {"N": "-1"},
    {"N": "1.5"},
    {"N": "9" * 38},
    {"N": "1E+125"},
    {"BOOL": True},
    {"NULL": True},
    {"L": [{"S": "x"}]},
    {"M": {"a": {"M": {"b": {"S": "x"}}}}},
    {"B": b"x"},
    {"S": "y" * 100_000},
)
#: What the worker reads of each kind of item.
META = ("status", "gen", "chunks", "pipeline", "has_notify_hook", "deadline_at")
CHUNK = (
    *("status", "gen", "fence", "attempts", "stage", "payload", "payload_sha256"),
    *("retry_at", "cancel_requested_at", "direction", "claim_expires_at", "label"),
    *("recoveries", "releases", "takeovers", "deferrals", "breaker_deferrals"),
    *("breaker_since", "budget_deferrals", "stage_deferrals", "failed_probes"),
    *("outages", "exhaustions", "pivot_untried_fence", "redispatch_at", "renewals"),
)
#: Rows of a chunk that was begun before: what stands there, in the place of what.
ROWS = (
    "STAGE#echo#0001",
    "CALLS#0001#0001#0001",
    "EFFECT#k",
    "ERROR#0001#0001",
    "COMPENSATION#0001",
)
BAD_ROWS: tuple[dict[str, Any], ...] = (
    {},
    {"value": {"N": "1"}, "calls": {"S": "x"}, "error": {"S": "{"}},
    {"value_at": {"S": "tenants/globex/jobs/j/payload/pack.jsonl"}},
    {"calls": {"M": {"k": {"N": "1"}}}, "effect_key": {"S": "k"}},
    {"error": {"S": "[" * 50_000}, "stage": {"N": "1"}},
    {"large": {"M": {"k": {"M": {"value_at": {"S": "../x"}}}}}},
)


@dataclass(frozen=True, slots=True)
class Damaged:
    """One item, and what is wrong with it."""

    what: str
    pk: str
    sk: str
    changes: dict[str, dict[str, Any] | None]
    #: The rows of earlier claims are read only where there was one.
    begun: bool = False


@dataclass(slots=True)
class Outcome:
    """The outcome of a worker and a reconciler that met a damaged item."""

    what: str
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    requests: int = 0

    @property
    def codes(self) -> set[str]:
        """The codes that were told."""
        found = {str(fields.get("error_code")) for _, fields in self.events}
        return found - {"None"}

    @property
    def crashed(self) -> list[str]:
        """What ended in an exception that has no code of its own."""
        return [
            f"{self.what}: {event} {fields}"
            for event, fields in self.events
            if ("failed" in event and not str(fields.get("error_code", "")).strip())
            or fields.get("error_code") == "runtime.stage.unhandled"
        ]


def damaged() -> Iterator[Damaged]:
    """Yield every field of an item with everything that may be wrong with it."""
    chunk = REF.chunk(1)
    for sk, pk, fields in ((keys.META_SK, REF.pk, META), (chunk.sk, chunk.pk, CHUNK)):
        for name in fields:
            for wrong in WRONG:
                yield Damaged(f"{sk} {name}={wrong!s:.60}", pk, sk, {name: wrong})
    for wrong in WRONG:
        named = {"stages": wrong}
        what = f"{chunk.sk} stages={wrong!s:.60}"
        yield Damaged(what, chunk.pk, chunk.sk, named, begun=True)
    for row in ROWS:
        for number, bad in enumerate(BAD_ROWS):
            sk = keys.work_prefix(1) + row
            yield Damaged(f"{row} {number}", chunk.pk, sk, dict(bad), begun=True)


async def met(each: Damaged) -> Outcome:
    """Let a worker and a reconciler meet a damaged item; nothing waits in real time."""
    cloud, log = Cloud(), Log()
    payloads = [Note(text=f"n{n}").model_dump_json().encode() for n in range(3)]
    await cloud.job(REF, payloads, "echo")
    item = stored(cloud, each.pk, each.sk)
    for name, value in each.changes.items():
        item.pop(name, None)
        if value is not None:
            item[name] = value
    put(cloud, item)
    if each.begun:
        chunk = stored(cloud, each.pk, REF.chunk(1).sk)
        chunk |= {"fence": {"N": "1"}, "attempts": {"N": "1"}}
        if "STAGE#" in each.sk:
            entry = {"M": {"fence": {"N": "1"}}}
            chunk["stages"] = {"M": {"echo": entry}}
        put(cloud, chunk)
    cloud.dynamodb.asked.clear()
    services = open_services(cloud.rt, "w", {"echo": PIPELINE}, log)
    worker = Worker(services, asyncio.Event())
    message = Message.about(REF.chunk(1), 1).model_dump_json()
    raw = {"Body": message, "ReceiptHandle": "r", "MessageId": "m"}
    worker.start(read(raw))
    await asyncio.wait(worker.active_tasks)
    await worker.acks.flush()
    await reconcile_once(cloud.rt, log, observe_s=0.0)  # type: ignore[arg-type]
    outcome = Outcome(each.what, list(log.said), len(cloud.dynamodb.asked))
    await asyncio.gather(*worker.active_tasks)
    return outcome


def stored(cloud: Cloud, pk: str, sk: str) -> dict[str, Any]:
    """Return an item as DynamoDB has it."""
    key = {"pk": {"S": pk}, "sk": {"S": sk}}
    name = cloud.settings.checkpoints_table
    reply = cloud.dynamodb.service.call("get_item", {"TableName": name, "Key": key})
    return dict(reply.get("Item", key))


def put(cloud: Cloud, item: dict[str, Any]) -> None:
    """Put an item in the place of whatever is there."""
    name = cloud.settings.checkpoints_table
    cloud.dynamodb.service.call("put_item", {"TableName": name, "Item": item})


def lines() -> Iterator[bytes]:
    """Yield lines of a payload or a manifest that are not valid."""
    yield from (b"", b"{", b"[]", b"\xff\xfe", b"null", b"1", b'"text"', b"\x00")
    yield from (b"[" * 40 + b"]" * 40, b"[" * 100_000, b"[" + b"0," * 200_000 + b"0]")
    yield from (b'{"text":"a","text":"b"}', b'{"text":NaN}', b'{"text":1e999}')
    yield from (b'{"text":"\\ud800"}', b'{"text":' + b"9" * 5_000 + b"}")
    yield json.dumps({"text": 1}).encode()
    yield json.dumps({"text": "a", "secret canary key": 1}).encode()
