"""Read jobs and chunks from the record, as documents for people and programs.

Nothing here writes. The chunks of a small job are counted one by one; those of a large
job are counted from its tallies, see `MAX_COUNTED_CHUNKS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from piecework.aws.objects import OBJECT_LIMIT, own_key, verify
from piecework.domain import keys, records
from piecework.domain.model import Chunk, ChunkRef, Job, JobRef, JobStatus, moment
from piecework.domain.records import Bounds
from piecework.errors import NotFoundError, SchemaTooNewError
from piecework.runtime import Runtime
from piecework.store.checkpoints import Work, read_work
from piecework.store.completion import (
    Tallies,
    all_chunks,
    ended_at_least,
    take_snapshot,
)
from piecework.store.notifications import Notifications
from piecework.store.results import is_inline

Document = dict[str, Any]

#: Chunks of the largest job whose chunks are counted one by one: four queries. Of a
#: larger job the full groups are counted, which stand on the job's own item.
MAX_COUNTED_CHUNKS = 4 * keys.PARTITION_SIZE
#: Maximum bytes of a chunk in a certificate, which names every chunk of its job. A
#: chunk with a result takes 80 bytes; a chunk without one also has its label.
CERTIFICATE_BYTES_PER_CHUNK = 1024
JOB_FACTS = (
    "source",
    "submitted_by",
    "created_at",
    "opened_at",
    "sent_at",
    "finalizing_at",
    "finished_at",
    "resumed_by",
    "resume_reason",
    "deadline_at",
    "manifest",
    "manifest_sha256",
)


async def require_job(rt: Runtime, job: str) -> Job:
    """Return a job.

    Raises:
        NotFoundError: `job.record.not_found`.
    """
    ref = JobRef(rt.settings.tenant, job)
    found = await rt.jobs.read(ref) if keys.is_name(job) else None
    if found is None:
        message = f"Job {job[:128]} of tenant {rt.settings.tenant} does not exist."
        raise NotFoundError(message, code="job.record.not_found")
    return found


async def job_document(rt: Runtime, job: Job) -> Document:
    """Return a job with its chunks by status, its dead letters and its certificate."""
    snapshot = await take_snapshot(rt.table, job.ref, job.chunks)
    return {
        **job_facts(job),
        **(
            {"notifications": await read_notifications(rt, job)}
            if job.has_notify_hook
            else {}
        ),
        "counts": dict(sorted(snapshot.by_status.items())),
        "error_codes": dict(sorted(snapshot.by_code.items())),
        "calls": {"paid": snapshot.calls, "cached": snapshot.cached_calls},
        "dead_letters": await count_open_letters(rt, job.ref),
        "certificate": await read_certificate(rt, job),
    }


def job_facts(job: Job) -> Document:
    """Return the facts on the job's own item."""
    facts = {name: job.item[name] for name in JOB_FACTS if name in job.item}
    if not job.status.ended:
        facts.pop("finished_at", None)  # of an earlier generation
    document = {
        "job": job.ref.job,
        "tenant": job.ref.tenant,
        "pipeline": job.pipeline,
        "status": str(job.status),
        "gen": job.gen,
        "chunks": job.chunks,
        **facts,
    }
    parts = {"status_reason": status_reason(job), "cancel": cancel_facts(job)}
    return document | {name: part for name, part in parts.items() if part}


def status_reason(job: Job) -> Document | None:
    """Return why the job makes no progress; None if it does, or if it has ended."""
    if job.status.ended or "status_reason" not in job.item:
        return None
    item = job.item
    return {
        "code": item["status_reason_code"],
        "message": item["status_reason"],
        "at": item["status_reason_at"],
        "until": item.get("status_reason_until", ""),
    }


async def count_open_letters(rt: Runtime, ref: JobRef) -> int:
    """Count the open dead letters of a job."""
    letters = rt.dead_letters.query(ref.pk)
    return sum([letter.get("state") == "OPEN" async for letter in letters])


async def read_certificate(rt: Runtime, job: Job) -> Document | None:
    """Return the certificate of an ended job, checked by its hash; None before.

    Raises:
        PermanentError: `runtime.payload.corrupt`.
    """
    if not job.status.ended or "certificate" not in job.item:
        return None
    prefix = keys.object_prefix(job.ref.tenant, job.ref.job)
    key = own_key(str(job.item["certificate"]), prefix)
    most = OBJECT_LIMIT + CERTIFICATE_BYTES_PER_CHUNK * job.chunks
    content = await rt.objects.get(key, most=most)
    verify(content, str(job.item["certificate_sha256"]), f"The certificate {key}")
    bounds = Bounds(most, nodes=keys.MAX_CHUNK_NUMBER)
    return records.read_document(content, f"The certificate {key}", bounds)


#: Attributes of an event's row that are not facts of the event.
NOT_EVENT_FACTS = {"pk", "sk", "v", "at", "event", "job"}


async def job_events(rt: Runtime, job: Job) -> list[Document]:
    """Return the events of a job, the oldest first: states, dead letters, redrives."""
    item = job.item
    moments: list[Document] = [
        {"at": item[name], "event": event, "facts": facts}
        for name, event, facts in (
            ("created_at", "submitted", {"by": item.get("submitted_by", "")}),
            ("opened_at", "running", {"chunks": job.chunks}),
            ("sent_at", "sent", {}),
            (
                "status_reason_at",
                "status reason",
                {"code": item.get("status_reason_code", "")},
            ),
            ("finalizing_at", "joining", {"gen": job.gen}),
        )
        if name in item
    ]
    for row in await rt.jobs.events(job.ref):
        facts = {k: v for k, v in row.items() if k not in NOT_EVENT_FACTS}
        moments.append({"at": row["at"], "event": row["event"], "facts": facts})
    async for letter in rt.dead_letters.query(job.ref.pk):
        facts = {"chunk": letter["chunk"], "code": letter["error_code"]}
        moments.append(
            {"at": letter["dead_lettered_at"], "event": "died", "facts": facts}
        )
    return sorted(moments, key=lambda moment: str(moment["at"]))


async def read_chunks(
    rt: Runtime, job: Job, status: str | None
) -> AsyncIterator[Document]:
    """Yield the chunks of a job, in order."""
    async for chunk in all_chunks(rt.table, job.ref, job.chunks):
        if status in (None, str(chunk.status)):
            yield chunk_facts(chunk)


def chunk_facts(chunk: Chunk) -> Document:
    """Return a chunk's item without its keys, its result and its claim token."""
    hidden = {"pk", "sk", "v", "claim_token", "value"}
    facts = {k: v for k, v in chunk.item.items() if k not in hidden}
    name = {"job": chunk.ref.job, "chunk": chunk.ref.chunk}
    return {**name, "label": chunk.item.get("label", ""), **facts}


async def require_chunk(rt: Runtime, ref: ChunkRef) -> Chunk:
    """Return a chunk.

    Raises:
        NotFoundError: `job.chunk.not_found`.
    """
    item = await rt.table.get(ref.pk, ref.sk)
    if item is None:
        message = f"Chunk {ref} does not exist."
        step = f"`piecework chunks list {ref.job}`"
        raise NotFoundError(message, code="job.chunk.not_found", next_step=step)
    return Chunk.read(ref, item)


async def chunk_document(rt: Runtime, ref: ChunkRef) -> Document:
    """Return a chunk with its stages, calls, effects, errors and compensations."""
    chunk, work = await asyncio.gather(require_chunk(rt, ref), read_work(rt.table, ref))
    return {
        **chunk_facts(chunk),
        "stages": stage_documents(chunk, work),
        "calls_in_journal": sum(
            len(page.get("calls", {})) + len(page.get("large", {}))
            for page in work.kind("CALLS")
        ),
        "effects": sorted(
            (effect_document(row) for row in work.kind("EFFECT")),
            key=lambda row: str(row["started_at"]),
        ),
        "errors": [error_document(row) for row in work.kind("ERROR")],
        "compensated": sorted(
            (compensation_document(row) for row in work.kind("COMPENSATED")),
            key=lambda row: str(row["at"]),
        ),
    }


def stage_documents(chunk: Chunk, work: Work) -> list[Document]:
    """Return the stages with a stored value, in the order of their end."""
    result = work.result
    if is_inline(chunk):
        result = {**chunk.item, "finished_at": chunk.item["settled_at"]}
    rows = [*work.kind("STAGE"), *([result] if result else [])]
    names = ("stage", "finished_at", "gen", "fence")
    done = [
        {name: row.get(name) for name in names} | {"is_result": row is result}
        for row in rows
    ]
    return sorted(done, key=lambda row: str(row["finished_at"]))


def effect_document(row: Mapping[str, Any]) -> Document:
    """Return an effect of the ledger as a document."""
    names = ("stage", "state", "effect", "started_at", "ended_at", "effect_key")
    return {name: row.get(name) for name in names}


def compensation_document(row: Mapping[str, Any]) -> Document:
    """Return a compensation as a document."""
    at, failed = row.get("finished_at"), "error" in row
    return {"stage": row["stage"], "at": at, "ok": not failed}


def error_document(row: Mapping[str, Any]) -> Document:
    """Return the error that ended a claim, as a document."""
    envelope = records.read_document(str(row["error"]), "An error on record")
    return {"attempt": row["attempt"], "at": row["at"], "worker": row["worker"]} | {
        **envelope
    }


# Read the end of a job: how long its cancel took, and its notifications.


def cancel_facts(job: Job) -> dict[str, Any] | None:
    """Return the facts of the job's cancel; None: it is not cancelled now.

    Durations are in seconds. They span the clocks of several machines, which may differ
    a little.
    """
    item = job.item
    if job.status not in {JobStatus.CANCELLING, JobStatus.CANCELLED}:
        return None
    names = ("cancelled_by", "cancel_reason", "cancel_code", "cancel_compensates")
    facts = {name: item[name] for name in (*names, "cancelled_at") if name in item}
    if job.status is JobStatus.CANCELLING or "quiesced_at" not in item:
        return facts
    requested = moment(str(item["cancelled_at"]))
    return facts | {
        "quiesced_after_s": round(moment(item["quiesced_at"]) - requested, 3),
        "cancelled_after_s": round(moment(item["finished_at"]) - requested, 3),
        "calls_after_cancel": item["calls_after_cancel"],
    }


async def read_notifications(rt: Runtime, job: Job) -> list[dict[str, Any]]:
    """Return the notifications of the job: those delivered, and those outstanding."""
    names = ("event", "gen", "at", "state", "attempts", "delivered_at", "last_error")
    rows = await Notifications(rt.table, rt.clock).of(job.ref)
    return [{name: row[name] for name in names if name in row} for row in rows]


# List the jobs of a tenant with their progress.


async def read_jobs(
    rt: Runtime, status: str | None, too_new: list[JobRef]
) -> AsyncIterator[Document]:
    """Yield a tenant's jobs with their progress, the newest first.

    Jobs that a newer version wrote cannot be read; they are added to `too_new`.
    """
    async for ref in rt.jobs.listed(rt.settings.tenant):
        try:
            job = await rt.jobs.read(ref)
        except SchemaTooNewError:
            too_new.append(ref)
            continue
        if job is not None and status in (None, str(job.status)):
            yield {**job_facts(job), **await progress_of(rt, job)}


async def progress_of(rt: Runtime, job: Job) -> Document:
    """Return the number of ended chunks, and the outcomes of an ended job."""
    if job.status.ended:
        outcomes = dict(job.item.get("outcomes", {}))
        return {"ended_chunks": sum(outcomes.values()), "outcomes": outcomes}
    if job.status is JobStatus.SUBMITTING:
        return {"ended_chunks": 0}
    if job.chunks > MAX_COUNTED_CHUNKS:
        return {"ended_chunks": ended_at_least(job.item)}
    return {"ended_chunks": await Tallies(rt.table).count_ended(job.ref, job.chunks)}
