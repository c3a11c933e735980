"""Explain a job of 100,000 chunks on the model of DynamoDB: requests and seconds."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Final

from piecework.domain import keys
from piecework.domain.moments import iso
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus
from piecework.settings import Settings
from piecework.store.table import INSERTS_AT_ONCE
from piecework.store.workers import WorkerReports
from piecework_orchestrator.reading.job_documents import Document, explain, require_job
from piecework_simulation.in_process import InProcessAws, ModelClient

REF: Final = JobRef("default", "large")
#: The share of the groups whose chunks have all ended.
ENDED_SHARE: Final = 0.6
#: Chunks that ended in a second, each four seconds after its claim.
RATE, TOOK_S = 100.0, 4.0


@dataclass(frozen=True, slots=True)
class Large:
    """The figures of one explanation, and what it says."""

    requests: int
    seconds: float
    findings: list[Document]
    finish: Document


class CountingClient(ModelClient):
    """Counts the requests to a model."""

    requests = 0

    async def send(self, operation: str, **request: Any) -> dict[str, Any]:
        """Count a request and execute it."""
        CountingClient.requests += 1
        return await super().send(operation, **request)


async def explain_large(chunks: int) -> Large:
    """Write a job whose open chunks wait for their next attempt, and explain it."""
    aws, now = InProcessAws(Settings()), time.time()
    rt = aws.runtime(clock=lambda: now)  # however long the writing takes
    facts = {"chunks": chunks, "pipeline": "p", "first_stage": "s"}
    await rt.jobs.create(REF, {**facts, "sent_at": iso(now)})
    groups = keys.partition_count(chunks)
    ended = range(round(groups * ENDED_SHARE))
    waiting = {
        "status": ChunkStatus.WAITING,
        "retry_at": iso(now + 3600),
        "error_code": "tool.http.503_unavailable",
    }
    began = now - len(ended) * keys.PARTITION_SIZE / RATE

    def row(number: int) -> dict[str, Any]:
        if keys.group_of(number) not in ended:
            return waiting
        end = began + number / RATE
        times = {"claimed_at": iso(end - TOOK_S), "ended_at": iso(end)}
        return {"status": ChunkStatus.SUCCEEDED, **times}

    rows = [(number, row(number)) for number in range(chunks)]
    for first in range(0, chunks, INSERTS_AT_ONCE):
        await rt.jobs.add_chunks(REF, 1, rows[first : first + INSERTS_AT_ONCE])
    for group in ended:
        size = keys.partition_size(group, chunks)
        start = group * keys.PARTITION_SIZE
        await rt.tallies.add(REF, group, range(start, start + size), chunks)
    await rt.transitions.open(REF, 1)
    await WorkerReports(rt.table, "w", rt.clock).report(
        {"p": ""}, [""], [], max_chunks=1, in_progress=1, lease_s=60.0, due_in_s=20.0
    )
    rt.table.client = CountingClient(aws, aws.dynamodb, rt.cost)  # type: ignore[assignment]
    rt.dead_letters.client = rt.table.client
    CountingClient.requests, began = 0, time.perf_counter()
    document = await explain(rt, await require_job(rt, REF.job))
    seconds = time.perf_counter() - began
    requests = CountingClient.requests
    return Large(requests, seconds, document["findings"], document["finish"])


def large(chunks: int = 100_000) -> Large:
    """Return the figures of a job of this size."""
    return asyncio.run(explain_large(chunks))
