"""Read what the record says of jobs and chunks, as documents for people and programs.

Nothing here writes. Whatever is counted is counted from the chunks themselves, as
long as the job is small enough to look at all of them in passing; see `LOOKED_AT`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from orchestrator.endings import cancel_facts, notices
from piecework import keys, layout, record
from piecework.errors import NotFoundError
from piecework.model import Chunk, ChunkRef, Job, JobRef
from piecework.objects import OBJECT_LIMIT, own_key, verify
from piecework.runtime import Runtime
from piecework.store.census import all_chunks, take_census
from piecework.store.results import has_on_item
from piecework.store.work import Work, read_work
from piecework.strict_json import Bounds

Document = dict[str, Any]

#: Chunks of a job that a list looks at one by one: four queries. Above it, the full
#: groups on the job's own item have to do.
LOOKED_AT = 4 * layout.GROUP_SIZE
#: A certificate names every chunk of its job: in 80 bytes one that has a result, in no
#: more than this one that has none, with its label.
CERTIFIED_BYTES = 1024
FACTS = (
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
        message = f"There is no job {job[:128]} of tenant {rt.settings.tenant}."
        raise NotFoundError(message, code="job.record.not_found")
    return found


async def job_document(rt: Runtime, job: Job) -> Document:
    """Return everything there is to know of a job."""
    census = await take_census(rt.table, job.ref, job.chunks)
    return {
        **job_facts(job),
        **({"notices": await notices(rt, job)} if job.has_notify_hook else {}),
        "counts": dict(sorted(census.by_status.items())),
        "error_codes": dict(sorted(census.by_code.items())),
        "calls": {"paid": census.calls, "cached": census.cached_calls},
        "dead_letters": await open_letters(rt, job.ref),
        "certificate": await certificate(rt, job),
    }


def job_facts(job: Job) -> Document:
    """Return what the job's own item says."""
    facts = {name: job.item[name] for name in FACTS if name in job.item}
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
    parts = {"notice": notice(job), "cancel": cancel_facts(job)}
    return document | {name: part for name, part in parts.items() if part}


def notice(job: Job) -> Document | None:
    """Return why the job does not get on; None once it has ended."""
    if job.status.ended or "notice" not in job.item:
        return None
    item = job.item
    return {
        "code": item["notice_code"],
        "message": item["notice"],
        "at": item["noticed_at"],
        "until": item.get("notice_until", ""),
    }


async def open_letters(rt: Runtime, ref: JobRef) -> int:
    """Count the dead letters of a job that nobody has redriven."""
    letters = rt.dead_letters.query(ref.pk)
    return sum([letter.get("letter_state") == "OPEN" async for letter in letters])


async def certificate(rt: Runtime, job: Job) -> Document | None:
    """Return what an ended job came to, checked against its hash; None before.

    Raises:
        PermanentError: `runtime.payload.corrupt`.
    """
    if not job.status.ended or "certificate" not in job.item:
        return None
    prefix = keys.object_prefix(job.ref.tenant, job.ref.job)
    key = own_key(str(job.item["certificate"]), prefix)
    most = OBJECT_LIMIT + CERTIFIED_BYTES * job.chunks
    content = await rt.objects.get(key, most=most)
    verify(content, str(job.item["certificate_sha256"]), f"The certificate {key}")
    bounds = Bounds(most, nodes=keys.MOST_CHUNKS)
    return record.document(content, f"The certificate {key}", bounds)


#: What an event's row needs to be found and read, and its reader knows already.
NOT_TOLD = {"pk", "sk", "v", "at", "event", "job"}


async def job_events(rt: Runtime, job: Job) -> list[Document]:
    """Return what happened to a job, in order: its states, its deaths, its redrives."""
    item = job.item
    moments: list[Document] = [
        {"at": item[name], "event": event, "facts": facts}
        for name, event, facts in (
            ("created_at", "submitted", {"by": item.get("submitted_by", "")}),
            ("opened_at", "running", {"chunks": job.chunks}),
            ("sent_at", "sent", {}),
            ("noticed_at", "notice", {"code": item.get("notice_code", "")}),
            ("finalizing_at", "joining", {"gen": job.gen}),
        )
        if name in item
    ]
    for row in await rt.jobs.events(job.ref):
        told = {k: v for k, v in row.items() if k not in NOT_TOLD}
        moments.append({"at": row["at"], "event": row["event"], "facts": told})
    async for letter in rt.dead_letters.query(job.ref.pk):
        told = {"chunk": letter["chunk"], "code": letter["error_code"]}
        moments.append({"at": letter["died_at"], "event": "died", "facts": told})
    return sorted(moments, key=lambda moment: str(moment["at"]))


async def listed_chunks(
    rt: Runtime, job: Job, status: str | None
) -> AsyncIterator[Document]:
    """Yield the chunks of a job, in order."""
    async for chunk in all_chunks(rt.table, job.ref, job.chunks):
        if status in (None, str(chunk.status)):
            yield chunk_facts(chunk)


def chunk_facts(chunk: Chunk) -> Document:
    """Return a chunk's item, without its keys, its result and its claim token."""
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
        message = f"There is no chunk {ref}."
        step = f"`piecework chunks list {ref.job}`"
        raise NotFoundError(message, code="job.chunk.not_found", next_step=step)
    return Chunk.read(ref, item)


async def chunk_document(rt: Runtime, ref: ChunkRef) -> Document:
    """Return a chunk with all that claims have written about it."""
    chunk, work = await asyncio.gather(require_chunk(rt, ref), read_work(rt.table, ref))
    return {
        **chunk_facts(chunk),
        "stages": stages(chunk, work),
        "calls_remembered": sum(
            len(page.get("calls", {})) + len(page.get("large", {}))
            for page in work.kind("CALLS")
        ),
        "effects": sorted(
            (effect_document(row) for row in work.kind("EFFECT")),
            key=lambda row: str(row["begun_at"]),
        ),
        "errors": [error(row) for row in work.kind("ERROR")],
        "undone": sorted(
            (undo(row) for row in work.kind("UNDO")), key=lambda row: str(row["at"])
        ),
    }


def stages(chunk: Chunk, work: Work) -> list[Document]:
    """Return the stages that left a value, in the order in which they did."""
    result = work.result
    if has_on_item(chunk):
        result = {**chunk.item, "finished_at": chunk.item["settled_at"]}
    rows = [*work.kind("STAGE"), *([result] if result else [])]
    names = ("stage", "finished_at", "gen", "fence")
    done = [
        {name: row.get(name) for name in names} | {"is_result": row is result}
        for row in rows
    ]
    return sorted(done, key=lambda row: str(row["finished_at"]))


def effect_document(row: Mapping[str, Any]) -> Document:
    """Return an effect of the ledger."""
    names = ("stage", "effect_state", "effect", "begun_at", "ended_at", "effect_key")
    return {name: row.get(name) for name in names}


def undo(row: Mapping[str, Any]) -> Document:
    """Return a step of the way back."""
    at, failed = row.get("finished_at"), "error" in row
    return {"stage": row["stage"], "at": at, "ok": not failed}


def error(row: Mapping[str, Any]) -> Document:
    """Return the error that ended a claim."""
    envelope = record.document(str(row["error"]), "An error on record")
    return {"attempt": row["attempt"], "at": row["at"], "worker": row["worker"]} | {
        **envelope
    }
