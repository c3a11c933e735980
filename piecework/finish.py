"""Fan-in: when every chunk has ended, run the join once and certify the job.

A full tally says that it is worth looking. What decides is one strongly consistent
look at all chunks, whose ids must be those of the manifest. The join is a chunk like
any other: claimed, retried, checkpointed, dead-lettered.
"""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from itertools import islice
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_json

from piecework import keys
from piecework.errors import StateError
from piecework.manifest import read_manifest
from piecework.model import ChunkRef, ChunkStatus, Job, JobRef, JobStatus, iso
from piecework.pipeline import JOIN
from piecework.ports import MissingChunk
from piecework.runtime import Runtime
from piecework.store.census import Counted, JobSnapshot

#: Results of a certificate that are written at once.
RESULTS_AT_ONCE = 4096


class Certificate(BaseModel):
    """What a job came to, with everything that is needed to check it.

    Attributes:
        results: The number of each chunk that has a result, and its SHA-256.
        missing: Every chunk without one, by name and reason.
        patched: The number of each chunk whose payload is not the manifest's any more,
            for a redrive gave it another, and the SHA-256 of that one.
    """

    job: str
    tenant: str
    pipeline: str
    gen: int
    status: JobStatus
    finished_at: str
    chunks: int
    manifest: str
    manifest_sha256: str
    outcomes: dict[str, int]
    error_codes: dict[str, int]
    results: dict[int, str]
    missing: list[MissingChunk]
    patched: dict[int, str] = {}
    join_error: str = ""


async def start_finalizing(rt: Runtime, ref: JobRef) -> tuple[ChunkRef, int] | None:
    """Begin the end of a job as it stands now: see `start_join`."""
    job = await rt.jobs.read(ref)
    return None if job is None else await start_join(rt, job)


async def start_join(rt: Runtime, job: Job) -> tuple[ChunkRef, int] | None:
    """Move a job whose chunks have all ended to its join; return the join and its gen.

    None: chunks are still at work, or the job is past it or has moved on since it was
    read, or another worker that saw the same was first: it runs the join.

    Raises:
        StateError: `job.manifest.mismatch`.
    """
    if job.status not in {JobStatus.RUNNING, JobStatus.FINALIZING}:
        return None
    join = job.ref.chunk(keys.JOIN_CHUNK)
    if job.status is JobStatus.FINALIZING:
        return join, job.gen
    snapshot = await rt.snapshots.ended(rt.table, job)
    if snapshot is None:
        return None
    await verify_against_manifest(rt, job, snapshot)
    if not await rt.transitions.finalize(job, {"stage": JOIN, "label": JOIN}):
        return None
    rt.snapshots.keep(job, snapshot)
    return join, job.gen


async def verify_against_manifest(rt: Runtime, job: Job, snapshot: JobSnapshot) -> None:
    """Compare the set of chunks with the manifest's, number by number.

    Raises:
        StateError: `job.manifest.mismatch`, naming the first that differ.
    """
    found = [row.chunk for row in snapshot.rows]
    entries = read_manifest(rt.objects, job)
    listed = [entry.chunk async for entry in entries]
    if found != listed and (different := set(found) ^ set(listed)):
        first = sorted(different)[:10]
        message = f"Chunks {first} of job {job.ref.job} are not as the manifest says."
        raise StateError(message, code="job.manifest.mismatch")


async def finish_cancel(rt: Runtime, ref: JobRef) -> bool:
    """End a job that is being cancelled as it stands now: see `end_cancelled`."""
    job = await rt.jobs.read(ref)
    return job is not None and await end_cancelled(rt, job)


async def end_cancelled(rt: Runtime, job: Job) -> bool:
    """Move a job that is being cancelled to its end, once every chunk has ended.

    A submit that was cut off has chunks that were never written: nobody can write
    them any more, and the certificate names them as cancelled, too.
    """
    if job.status is not JobStatus.CANCELLING:
        return False
    snapshot = await rt.snapshots.ended(rt.table, job)
    if snapshot is None:
        return False
    if len(snapshot.rows) < job.chunks:
        snapshot = await add_unwritten_chunks(rt, job, snapshot)
    certificate = certify(job, snapshot, rt.clock(), "", JobStatus.CANCELLED)
    measured = {
        "quiesced_at": snapshot.quiesced_at(job.cancelled_at),
        "calls_after_cancel": snapshot.calls_after_cancel,
    }
    facts = await store_certificate(rt, certificate) | measured
    return await rt.transitions.cancelled(job, facts)


async def add_unwritten_chunks(
    rt: Runtime, job: Job, snapshot: JobSnapshot
) -> JobSnapshot:
    """Count the chunks, too, that a submit which was cut off has never written."""
    written = {row.chunk for row in snapshot.rows}
    entries = read_manifest(rt.objects, job)
    unwritten = [
        Counted(e.chunk, ChunkStatus.CANCELLED, "", "", e.label)
        async for e in entries
        if e.chunk not in written
    ]
    return replace(snapshot, rows=tuple(sorted([*snapshot.rows, *unwritten])))


def certify(
    job: Job,
    snapshot: JobSnapshot,
    finished_at: float,
    join_error: str,
    status: JobStatus | None = None,
) -> Certificate:
    """Return what the job came to; its status follows from its chunks unless given."""
    return Certificate(
        job=job.ref.job,
        tenant=job.ref.tenant,
        pipeline=job.pipeline,
        gen=job.gen,
        status=status or verdict(snapshot, join_error),
        finished_at=iso(finished_at),
        chunks=job.chunks,
        manifest=str(job.item["manifest"]),
        manifest_sha256=str(job.item["manifest_sha256"]),
        outcomes=dict(sorted(snapshot.by_status.items())),
        error_codes=dict(sorted(snapshot.by_code.items())),
        results={
            row.chunk: row.result_sha256
            for row in snapshot.rows
            if row.status is ChunkStatus.SUCCEEDED
        },
        missing=list(snapshot.missing),
        patched={r.chunk: r.patched_sha256 for r in snapshot.rows if r.patched_sha256},
        join_error=join_error,
    )


def verdict(snapshot: JobSnapshot, join_error: str) -> JobStatus:
    """Say how the job ended."""
    succeeded = snapshot.by_status[ChunkStatus.SUCCEEDED]
    if join_error or succeeded == 0:
        return JobStatus.FAILED
    if succeeded == len(snapshot.rows):
        return JobStatus.SUCCEEDED
    return JobStatus.PARTIAL


async def store_certificate(rt: Runtime, certificate: Certificate) -> dict[str, Any]:
    """Store a certificate; return what the job's item keeps of it.

    Under its own hash: of two who end a job at once one is refused, and what it has
    stored must not stand in the place of the other's.
    """
    content = encoded(certificate)
    prefix = keys.object_prefix(certificate.tenant, certificate.job)
    sha256 = keys.sha256(content)
    key = f"{prefix}/certificate/{certificate.gen:04d}-{sha256[:16]}.json"
    return {
        "certificate": await rt.objects.put(key, content),
        "certificate_sha256": sha256,
        "outcomes": certificate.outcomes,
    }


def encoded(certificate: Certificate) -> bytes:
    """Return a certificate as JSON; in parts, for of a large job it has megabytes."""
    bare = to_json(certificate.model_copy(update={"results": {}}), indent=1)
    # Within a text the quotes would be escaped.
    before, found, after = bare.partition(b'"results": {}')
    rest = iter(certificate.results.items())
    content = BytesIO()
    content.write(before + found[:-1])
    comma = b""
    while some := dict(islice(rest, RESULTS_AT_ONCE)):
        lines = to_json(some, indent=1)[1:-2].replace(b"\n", b"\n ")
        content.write(comma + lines)
        comma = b","
    content.write((b"\n }" if comma else b"}") + after)
    return content.getvalue()
