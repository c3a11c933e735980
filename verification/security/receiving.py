"""Fuzzed messages through the true worker's receive path, and the outcome of each."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import structlog
from pydantic import BaseModel

from piecework import Context, Pipeline, Stage
from piecework.aws.queue import read
from piecework.domain.keys import QUARANTINE_PK
from piecework.domain.refs import JobRef
from piecework.domain.result_types import result_type
from piecework_worker.services import open_services
from piecework_worker.worker import Worker
from verification.security import audit_hook
from verification.security.aws import Client, Cloud
from verification.security.fuzz import TENANTS, bodies

CHUNKS = 3
#: The events that end a claim.
CLAIM_ENDS = {
    "chunk.succeeded",
    "chunk.retry_scheduled",
    "chunk.deferred",
    "chunk.released",
    "chunk.cancelled",
    "chunk.dead_lettered",
}


class Note(BaseModel):
    """A payload that says whose it is."""

    text: str


async def echo(ctx: Context[Note]) -> str:
    """Return what was given, with whose it is held to be."""
    return f"{ctx.tenant}:{ctx.payload.text}"


PIPELINE = Pipeline(name="echo", payload=Note, stages=[Stage(echo)])


@dataclass(slots=True)
class Log:
    """Keeps the events; what may not happen is an exception among them."""

    said: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def debug(self, event: str, **fields: Any) -> None:
        self.said.append((event, fields))

    info = warning = error = exception = debug

    def bind(self, **_: Any) -> Log:
        return self


@dataclass(slots=True)
class Found:
    """The outcomes of all messages.

    Attributes:
        ends: How many were set aside by each code, done, given way, or left.
        crashed: Turns that ended in an exception.
        forbidden: Imports, files, processes and connections.
        crossed: Reads and writes outside of what a message named.
    """

    ends: Counter[str] = field(default_factory=Counter)
    crashed: list[str] = field(default_factory=list)
    forbidden: list[str] = field(default_factory=list)
    crossed: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        """Whether nothing happened that may not."""
        return not (self.crashed or self.forbidden or self.crossed)


async def receive(count: int, seed: int = 1) -> Found:
    """Give so many messages to a worker, one after another."""
    cloud, log, found = Cloud(), Log(), Found()
    for tenant in TENANTS:
        payloads = [
            Note(text=f"{tenant}-{n}").model_dump_json().encode() for n in range(CHUNKS)
        ]
        await cloud.job(JobRef(tenant, "j"), payloads, "echo")
    services = open_services(cloud.rt, "w", {"echo": PIPELINE}, log)
    worker = Worker(services, asyncio.Event())
    quiet = structlog.testing.capture_logs()
    # What is loaded, or read off our own annotations, the first time that it is needed.
    await give(worker, cloud, log, bodies(40, seed=0), Found())
    result_type(echo)
    began = time.monotonic()
    with quiet, audit_hook.watching() as found.forbidden:
        await give(worker, cloud, log, bodies(count, seed), found)
    found.seconds = time.monotonic() - began
    return found


async def give(
    worker: Worker, cloud: Cloud, log: Log, texts: Iterable[str], found: Found
) -> None:
    """Hand messages over as the queue would, and look at each turn by itself."""
    for number, body in enumerate(texts):
        for client in (cloud.dynamodb, cloud.s3, cloud.sqs):
            client.asked.clear()
        log.said.clear()
        raw = {"Body": body, "ReceiptHandle": f"r{number}", "MessageId": f"m{number}"}
        try:
            delivery = read(raw)
            worker.start(delivery)
            await asyncio.wait(worker.active_tasks)
        except Exception as error:  # noqa: BLE001 -- that is what is looked for
            found.crashed.append(f"{body[:200]!r}: {type(error).__name__}")
            continue
        await worker.acks.flush()
        found.crashed += [
            f"{body[:200]!r}: {event} {fields}"
            for event, fields in log.said
            if event in {"worker.execution_failed", "acks.failed"}
        ]
        found.ends[end_of(log, cloud.sqs)] += 1
        message = delivery.message
        allowed = [f"T#{message.tenant}#"] if message else []
        found.crossed += [
            f"{body[:200]!r}: {place}"
            for place in touched(cloud)
            if not place.startswith((*allowed, QUARANTINE_PK, "BREAKERS"))
            and not (message and place.startswith(f"tenants/{message.tenant}/"))
            and not (message and place == f"ACTIVE {message.tenant}")
        ]


def end_of(log: Log, sqs: Client) -> str:
    """Return the outcome of a message."""
    for event, fields in log.said:
        if event == "message.quarantined":
            return str(fields["error_code"])
        if event in CLAIM_ENDS:
            return "done"
    operations = {operation for operation, _ in sqs.asked}
    if any(name.startswith("delete") for name in operations):
        return "dropped: its chunk had ended"
    with contextlib.suppress(StopIteration):
        return next(f"left: {event}" for event, _ in log.said)
    return "left to a newer worker" if operations else "nothing"


def touched(cloud: Cloud) -> list[str]:
    """Return the partitions and objects that were read or written."""
    return [
        place
        for client in (cloud.dynamodb, cloud.s3)
        for _, request in client.asked
        for place in places(request)
    ]


def places(request: dict[str, Any]) -> list[str]:
    """Return what one request names."""
    if "TransactItems" in request:
        items = [
            part for action in request["TransactItems"] for part in action.values()
        ]
        return [place for part in items for place in places(part)]
    key = request.get("Key") or request.get("Item") or {}
    if isinstance(key, str):
        return [key]
    if "pk" in key:
        pk = str(key["pk"]["S"])
        return [f"{pk} {key['sk']['S'].partition('#')[0]}"] if pk == "ACTIVE" else [pk]
    values = request.get("ExpressionAttributeValues", {})
    return [str(values[":pk"]["S"])] if ":pk" in values else []
