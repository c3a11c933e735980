"""Tell the story of a job or a chunk as spans of time, from its record."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final

from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.refs import ChunkRef
from piecework.domain.rows import CompensatedRow
from piecework.reading import Reading
from piecework.store.checkpoints import read_work
from piecework.store.completion import all_chunks
from piecework_orchestrator.reading.chunk_documents import (
    require_chunk,
    separate_result,
    stage_documents,
)
from piecework_orchestrator.reading.events import job_events
from piecework_orchestrator.reading.job_documents import Document

#: Chunks of a job that its timeline shows: those that took longest.
MAX_CHUNKS: Final = 20


async def job_timeline(rt: Reading, job: Job) -> Document:
    """Return the phases of a job, its slowest chunks, and its events."""
    now = iso(rt.clock())
    slowest: list[tuple[str, Chunk]] = []
    claimed = 0
    async for chunk in all_chunks(rt.table, job.ref, job.chunks):
        if chunk.claimed_at:
            claimed += 1
            slowest.append((duration_key(chunk, now), chunk))
            slowest = sorted(slowest, key=lambda each: each[0])[-MAX_CHUNKS:]
    shown = sorted((chunk for _, chunk in slowest), key=lambda chunk: chunk.ref.chunk)
    spans = [*phases(job, now)]
    for chunk in shown:
        spans += claim_spans(chunk, now)
    return document(
        job, spans, await job_events(rt, job), chunks=len(shown), of=claimed
    )


def duration_key(chunk: Chunk, now: str) -> str:
    """Return a text that sorts by the seconds from the first claim known to the end."""
    began = chunk.history[0]["from"] if chunk.history else chunk.claimed_at
    return f"{seconds(began, chunk.ended_at or now):020.3f}"


def phases(job: Job, now: str) -> Iterator[Document]:
    """Yield the submit, the run and the join of the present generation."""
    began = job.reopened_at or job.created_at
    opened = job.reopened_at or job.opened_at
    end = job.finished_at if job.status.ended else now
    if not job.reopened_at:
        yield span("submit", "phase", began, job.sent_at or opened or now)
    if opened:
        yield span("run", "phase", opened, job.finalizing_at or end)
    if job.finalizing_at:
        yield span("join", "phase", job.finalizing_at, end)


async def chunk_timeline(rt: Reading, job: Job, ref: ChunkRef) -> Document:
    """Return the claims, waits, stages and compensations of a chunk."""
    chunk = await require_chunk(rt, ref)
    work, result = await asyncio.gather(
        read_work(rt.table, ref, chunk), separate_result(rt, chunk)
    )
    now = iso(rt.clock())
    stages = stage_documents(chunk, work, result)
    spans = [*claim_spans(chunk, now), *stage_spans(chunk, stages, now)]
    events = [
        {
            "at": row.finished_at,
            "event": "compensation failed" if row.has_failed else "compensated",
            "facts": {"stage": row.stage, **code_of(row)},
        }
        for row in work.compensated
    ]
    return document(job, spans, events, chunks=1, of=1)


def code_of(row: CompensatedRow) -> dict[str, str]:
    """Return the code of a failed compensation."""
    return {"code": row.failure.code} if row.failure else {}


def claim_spans(chunk: Chunk, now: str) -> Iterator[Document]:
    """Yield the claims of a chunk and the waits between them, the oldest first."""
    name = "join" if chunk.ref.is_join else str(chunk.ref.chunk)
    history = chunk.history
    starts = [str(entry["from"]) for entry in history[1:]]
    owned = bool(chunk.claimed_at) and chunk.claimed_at != (
        history[-1]["from"] if history else ""
    )
    if history:  # a chunk that was never claimed has no wait to draw
        starts += [chunk.claimed_at if owned else chunk.ended_at or now]
    for entry, following in zip(history, starts, strict=True):
        facts = {
            "attempt": entry.get("attempt", 0),
            "worker": entry.get("worker", ""),
            "end": entry["end"],
            "code": entry.get("code", ""),
        }
        yield span(name, "claim", str(entry["from"]), str(entry["to"]), **facts)
        why = entry.get("blocked_on") or entry.get("code") or entry["end"]
        yield span(name, "wait", str(entry["to"]), following, reason=why)
    if owned:
        facts = {
            "attempt": chunk.attempts,
            "worker": chunk.claimed_by or chunk.ended_by,
            "end": str(chunk.status).lower(),
            # That of a claim that goes on would be the error of an earlier one.
            "code": chunk.error_code if chunk.status.ended else "",
        }
        end = chunk.ended_at or now
        yield span(name, "claim", chunk.claimed_at, end, **facts)


def stage_spans(
    chunk: Chunk, stages: Sequence[Document], now: str
) -> Iterator[Document]:
    """Yield the stages of a chunk in the order of their end, the present one last."""
    for row in stages:
        if row["started_at"]:
            facts = {"worker": row["worker"] or "", "attempt": row["attempt"] or 0}
            yield span(
                row["stage"], "stage", row["started_at"], row["finished_at"], **facts
            )
    if chunk.claimed_by:
        facts = {"worker": chunk.claimed_by, "attempt": chunk.attempts}
        yield span(chunk.stage, "stage", chunk.started_at, now, **facts)


def span(name: str, kind: str, began: str, ended: str, **facts: Any) -> Document:
    """Return a span; `ended` is now for one that lasts."""
    known = {key: value for key, value in facts.items() if value not in ("", 0)}
    return {
        "name": name,
        "kind": kind,
        "from": began,
        "to": ended,
        "seconds": round(seconds(began, ended), 3),
        **known,
    }


def seconds(began: str, ended: str) -> float:
    """Return the seconds between two times; clocks of machines differ a little."""
    from piecework_orchestrator.reading.times import epoch

    return max(0.0, epoch(ended) - epoch(began))


def document(
    job: Job, spans: list[Document], events: list[Document], *, chunks: int, of: int
) -> Document:
    """Return a timeline; `chunks` of `of` claimed chunks are in it."""
    return {
        "job": job.ref.job,
        "status": str(job.status),
        "chunks": chunks,
        "claimed_chunks": of,
        "spans": spans,
        "events": events,
    }
