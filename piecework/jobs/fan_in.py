"""Fan-in: when every chunk has ended, run the join once and certify the job.

When all tallies are full, a snapshot is worthwhile. One strongly consistent snapshot of
all chunks decides, and its chunk numbers must be those of the manifest. The join is a
chunk like any other: it is claimed, retried, checkpointed and dead-lettered.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_json

from piecework.aws.objects import Objects
from piecework.aws.queue import Message
from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.protocols import MissingChunk, StoredResult
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.rows import StageRow
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.errors import StateError
from piecework.jobs.manifest import read_manifest
from piecework.pipelines import JOIN
from piecework.runtime import Runtime
from piecework.saga.compensation import CANCEL_CODE
from piecework.store.completion import JobSnapshot, chunks_of_group, read_chunk
from piecework.store.results import NULL, stored_results
from piecework.store.table import Table

#: Results of a certificate that are written at once.
RESULTS_AT_ONCE = 4096


class Certificate(BaseModel):
    """The final state of a job, with all data that is needed to verify it.

    What names single chunks comes last. So the first bytes of a large certificate have
    all else: see `keys.CERTIFICATE_HEAD_ENDS`.

    Attributes:
        calls: Calls of settled claims that were `paid`, and that came from the cache
            (`cached`); and the `lost_claims`, whose calls are not counted.
        outages: How often an outage of AWS deferred a chunk.
        results: The number of each chunk that has a result, and its SHA-256.
        missing: Every chunk without a result, with its status and error code.
        compensations: How many chunks without a result have each result of the
            compensation.
        tolerated: How many chunks without a result the job tolerates.
        stopped: The code of the reason for which no further chunk started; or empty.
        patched: The number of each chunk whose payload a redrive has replaced, and the
            SHA-256 of the new payload.
        code_versions: How many chunks were claimed last by each code version.
        effects_in_doubt: The number of each chunk with effects in doubt, and how many.
        paid_again: How many pure calls newer code made again.
        left_out_rows: How many refused rows of the input the submit left out.
        left_out: The first of these rows, such as `line 3`.
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
    calls: dict[str, int] = {}
    outages: int = 0
    compensations: dict[str, int] = {}
    join_error: str = ""
    tolerated: int = 0
    stopped: str = ""
    code_versions: dict[str, int] = {}
    effects_in_doubt: dict[int, int] = {}
    paid_again: int = 0
    left_out_rows: int = 0
    left_out: list[str] = []
    results: dict[int, str]
    missing: list[MissingChunk]
    patched: dict[int, str] = {}


async def start_finalizing(rt: Runtime, ref: JobRef) -> tuple[ChunkRef, int] | None:
    """Read the job and start its join if all chunks have ended; see `start_join`."""
    job = await rt.jobs.read(ref)
    return None if job is None else await start_join(rt, job)


async def start_join(rt: Runtime, job: Job) -> tuple[ChunkRef, int] | None:
    """Move a job whose chunks have all ended to its join; return the join and its gen.

    None: chunks have not ended, the job is cancelled, or it has changed since it was
    read.

    Raises:
        StateError: `job.manifest.mismatch`.
    """
    join = job.ref.chunk(keys.JOIN_CHUNK)
    if job.status is JobStatus.FINALIZING:
        return join, job.gen
    if job.status is not JobStatus.RUNNING and not job.is_expiring:
        return None
    snapshot = await rt.snapshots.ended(rt.table, job)
    if snapshot is None or (job.is_expiring and not ends_in_time(job, snapshot)):
        return None
    await verify_against_manifest(rt, job, snapshot)
    earlier = await read_chunk(rt.table, join) if job.gen > 1 else None
    # The ledger names a claim by its fence, so that of a join rises, too.
    fence = 0 if earlier is None else earlier.fence
    facts = {"stage": JOIN, "label": JOIN, "fence": fence}
    if not await rt.transitions.finalize(job, facts):
        return None
    rt.snapshots.keep(job, snapshot)
    return join, job.gen


def ends_in_time(job: Job, snapshot: JobSnapshot) -> bool:
    """Return whether a job whose deadline has passed ends as if it had none.

    It does if the deadline stopped no chunk. Then no chunk was cancelled, or all had
    ended before, after too many failures.
    """
    if not job.is_expiring or len(snapshot.rows) < job.chunks:
        return False
    if job.stopped_code and snapshot.ended_at < job.cancelled_at:
        return True
    return not any(
        row.status is ChunkStatus.CANCELLED or row.error_code == CANCEL_CODE
        for row in snapshot.rows
        if row.status is not ChunkStatus.SUCCEEDED
    )


async def verify_against_manifest(rt: Runtime, job: Job, snapshot: JobSnapshot) -> None:
    """Compare the set of chunks with the manifest's, number by number.

    Raises:
        StateError: `job.manifest.mismatch`, naming the first differences.
    """
    found = [row.chunk for row in snapshot.rows]
    entries = read_manifest(rt.objects, job)
    listed = [entry.chunk async for entry in entries]
    if found != listed and (different := set(found) ^ set(listed)):
        first = sorted(different)[:10]
        message = f"Chunks {first} of job {job.ref.job} are not as the manifest says."
        raise StateError(message, code="job.manifest.mismatch")


async def finish_cancel(rt: Runtime, ref: JobRef) -> bool:
    """Read a job and end it if it is being cancelled; see `end_cancelled`.

    If its deadline has stopped no chunk, send its join instead.
    """
    job = await rt.jobs.read(ref)
    if job is None or job.status is not JobStatus.CANCELLING:
        return False
    if await end_cancelled(rt, job):
        return True
    if join := await start_join(rt, job):
        await rt.work.send([Message.about(*join)], to=job.queue)
    return False


async def end_cancelled(rt: Runtime, job: Job) -> bool:
    """End a job that is being cancelled, once every chunk has ended.

    A job whose deadline has stopped no chunk runs its join instead: see `ends_in_time`.
    The sweep creates the chunks that an interrupted submit has not written. Before that
    the job does not end.
    """
    if job.status is not JobStatus.CANCELLING:
        return False
    snapshot = await rt.snapshots.ended(rt.table, job)
    if snapshot is None or ends_in_time(job, snapshot):
        return False
    if len(snapshot.rows) < job.chunks:
        return False
    certificate = certify(job, snapshot, rt.clock(), "", JobStatus.CANCELLED)
    measured = {
        "compensations": certificate.compensations,
        "quiesced_at": snapshot.quiesced_at(job.cancelled_at),
        "calls_after_cancel": snapshot.calls_after_cancel,
    }
    had_doubt = job.effects_in_doubt > 0
    facts = await store_certificate(rt, certificate, had_doubt=had_doubt) | measured
    facts |= unstable_facts(job, snapshot)
    return await rt.transitions.cancelled(job, facts)


def certify(
    job: Job,
    snapshot: JobSnapshot,
    finished_at: float,
    join_error: str,
    status: JobStatus | None = None,
) -> Certificate:
    """Return the certificate; without `status` the chunks decide the job's status."""
    return Certificate(
        job=job.ref.job,
        tenant=job.ref.tenant,
        pipeline=job.pipeline,
        gen=job.gen,
        status=status or status_from(snapshot, join_error, job.tolerated_chunks),
        finished_at=iso(finished_at),
        chunks=job.chunks,
        manifest=job.manifest,
        manifest_sha256=job.manifest_sha256,
        outcomes=dict(sorted(snapshot.by_status.items())),
        error_codes=dict(sorted(snapshot.by_code.items())),
        calls={
            "paid": snapshot.calls,
            "cached": snapshot.cached_calls,
            "lost_claims": snapshot.lost_claims,
        },
        outages=snapshot.outages,
        results={
            row.chunk: row.result_sha256
            for row in snapshot.rows
            if row.status is ChunkStatus.SUCCEEDED
        },
        missing=list(snapshot.missing),
        compensations=dict(sorted(snapshot.by_compensation.items())),
        patched={r.chunk: r.patched_sha256 for r in snapshot.rows if r.patched_sha256},
        join_error=join_error,
        tolerated=job.tolerated_chunks,
        stopped=job.stopped_code,
        code_versions=dict(sorted(snapshot.by_version.items())),
        effects_in_doubt=snapshot.in_doubt,
        paid_again=snapshot.paid_again,
        left_out_rows=job.left_out_rows,
        left_out=job.left_out,
    )


def status_from(
    snapshot: JobSnapshot, join_error: str, tolerated: int = 0
) -> JobStatus:
    """Return the final status that follows from the chunks and the join.

    `tolerated`: how many chunks may have no result in a job that succeeds.
    """
    succeeded = snapshot.by_status[ChunkStatus.SUCCEEDED]
    if join_error or succeeded == 0:
        return JobStatus.FAILED
    if succeeded >= len(snapshot.rows) - tolerated:
        return JobStatus.SUCCEEDED
    return JobStatus.PARTIAL


async def store_certificate(
    rt: Runtime, certificate: Certificate, *, had_doubt: bool
) -> dict[str, Any]:
    """Store a certificate; return the attributes of the job's item that refer to it.

    `had_doubt`: whether the job's item counts effects in doubt.

    The key contains the hash. If two workers end a job at once, one write is refused,
    and its object must not replace the other's.
    """
    doubtful = sum(certificate.effects_in_doubt.values())
    content = encode(certificate)
    sha256 = keys.sha256(content)
    key = keys.certificate_key(
        certificate.tenant, certificate.job, certificate.gen, sha256
    )
    return {
        "certificate": await rt.objects.put(key, content),
        "certificate_sha256": sha256,
        "outcomes": certificate.outcomes,
        **({"effects_in_doubt": doubtful} if doubtful or had_doubt else {}),
    }


def unstable_facts(job: Job, snapshot: JobSnapshot) -> dict[str, Any]:
    """Return what the job's item says of a call whose arguments differ in each run."""
    found = dict(snapshot.unstable)
    return {"unstable_call": found} if found or job.unstable_call else {}


def encode(certificate: Certificate) -> bytes:
    """Return a certificate as JSON; in parts, because a large job needs megabytes."""
    bare = to_json(certificate.model_copy(update={"results": {}}), indent=1)
    # Within a text the quotes would be escaped.
    before, found, after = bare.partition(keys.CERTIFICATE_HEAD_ENDS + b"}")
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


# ── what a join reads and writes ──────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class StoredJobResults:
    """The results of one job, whose chunks have all ended."""

    table: Table
    objects: Objects
    ref: JobRef
    snapshot: JobSnapshot

    @property
    def missing(self) -> Sequence[MissingChunk]:
        """The chunks that have no result."""
        return self.snapshot.missing

    async def results(self) -> AsyncIterator[StoredResult]:
        """Yield the result of each chunk that succeeded, in order.

        Raises:
            StateError: `runtime.state.checkpoint_corrupt`: a result is not the one
                that its chunk settled with.
        """
        rows = self.snapshot.rows
        for group in range(keys.partition_count(len(rows))):
            stored = await self._stored(group)
            first = group * keys.PARTITION_SIZE
            for row in rows[first : first + keys.PARTITION_SIZE]:
                if row.status is not ChunkStatus.SUCCEEDED:
                    continue
                value = await self._value(stored.get(row.chunk))
                if keys.sha256(value.encode()) != row.result_sha256:
                    message = (
                        f"Chunk {row.chunk} did not settle with its stored result."
                    )
                    raise StateError(message, code="runtime.state.checkpoint_corrupt")
                yield StoredResult(row.chunk, row.label, value)

    async def _value(self, row: StageRow | None) -> str:
        prefix = keys.object_prefix(self.ref.tenant, self.ref.job)
        return NULL if row is None else await self.objects.get_value(row, prefix)

    async def _stored(self, group: int) -> dict[int, StageRow | None]:
        """Return the result of each chunk of a group, by its number."""
        chunks = [c async for c in chunks_of_group(self.table, self.ref, group)]
        pk = keys.partition_pk(self.ref.tenant, self.ref.job, group)
        stored = await stored_results(self.table, pk, chunks)
        return {chunk.ref.chunk: row for chunk, row in stored}

    async def write(self, name: str, content: bytes, media_type: str) -> str:
        """Save an artifact of the job; return its key."""
        key = keys.artifact_key(self.ref.tenant, self.ref.job, name)
        return await self.objects.put(key, content, media_type)
