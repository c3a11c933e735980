"""Read jobs and chunks from the record, as documents for people and programs.

Nothing here writes. The chunks of a small job are counted one by one; those of a large
job are counted from its tallies, see `MAX_COUNTED_CHUNKS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from piecework.aws.objects import OBJECT_LIMIT, own_key, read_value, verify
from piecework.domain import keys, records
from piecework.domain.budget import NANO
from piecework.domain.job_row import PauseCode
from piecework.domain.model import (
    Chunk,
    ChunkRef,
    ChunkStatus,
    Job,
    JobRef,
    JobStatus,
    iso,
    moment,
)
from piecework.domain.records import Bounds, read_json
from piecework.domain.rows import CompensatedRow, EffectRow, told_once
from piecework.errors import (
    NotFoundError,
    PieceworkError,
    SchemaTooNewError,
    UsageError,
)
from piecework.explain.waiting import wait_of
from piecework.reading import Reading
from piecework.store.checkpoints import Work, read_work
from piecework.store.completion import (
    JobSnapshot,
    Tallies,
    all_chunks,
    read_chunk,
)
from piecework.store.dead_letters import DeadLetters
from piecework.store.notifications import Notifications
from piecework.store.results import NULL, is_inline, stored_results
from piecework_orchestrator.times import parse_limit

if TYPE_CHECKING:
    from piecework.explain.finish_time import FinishTime
    from piecework.explain.situation import OpenChunks, Situation
    from piecework.resilience.budget import Budget

Document = dict[str, Any]

#: Chunks of the largest job whose chunks are counted one by one: four queries. Of a
#: larger job the full groups are counted, which stand on the job's own item.
MAX_COUNTED_CHUNKS = 4 * keys.PARTITION_SIZE
#: Maximum bytes of a chunk in a certificate, which names every chunk of its job. A
#: chunk with a result takes 80 bytes; a chunk without one also has its label.
CERTIFICATE_BYTES_PER_CHUNK = 1024
#: Maximum bytes of a result that is shown with its chunk; of a longer one, so many
#: characters.
RESULT_BYTES, RESULT_EXCERPT = 16_384, 4_096
JOB_FACTS = (
    "queue",
    "source",
    "submitted_by",
    "created_at",
    "opened_at",
    "sent_at",
    "finalizing_at",
    "finished_at",
    "reopened_at",
    "reopened_by",
    "reopen_reason",
    "deadline_at",
    "tolerated_chunks",
    "failed_chunks",
    "stopped_at",
    "stopped_code",
    "delete_after",
    "kept_at",
    "priority",
    "sample_chunks",
    "manifest",
    "manifest_sha256",
)


def parse_status(status: str, statuses: type[StrEnum]) -> str:
    """Return a status in upper case, as it is stored.

    Raises:
        UsageError: `cli.usage.invalid`, naming the valid statuses.
    """
    names = [str(each) for each in statuses]
    if status.upper() not in names:
        message = f"{status} is not a status."
        raise UsageError(message, next_step=f"Use one of {', '.join(names)}.")
    return status.upper()


async def require_job(rt: Reading, job: str) -> Job:
    """Return a job.

    Raises:
        NotFoundError: `job.record.not_found`; `job.record.deleted`.
    """
    found = await read_job(rt, job)
    require_not_deleted(found)
    return found


async def read_job(rt: Reading, job: str) -> Job:
    """Return a job, or the tombstone of a deleted one.

    Raises:
        NotFoundError: `job.record.not_found`.
    """
    ref = JobRef(rt.settings.tenant, job)
    found = await rt.jobs.read(ref) if keys.is_name(job) else None
    if found is None:
        message = f"Job {job[:128]} of tenant {rt.settings.tenant} does not exist."
        raise NotFoundError(message, code="job.record.not_found")
    return found


def require_not_deleted(job: Job) -> None:
    """Refuse a deleted job, and one that is being deleted.

    Raises:
        NotFoundError: `job.record.deleted`, with actor, reason and time.
    """
    if not job.status.gone:
        return
    facts = job.deletion
    done = job.status is JobStatus.DELETED
    at = facts.get("deleted_at") or facts.get("delete_requested_at", "")
    message = (
        f"Job {job.ref.job} {'was' if done else 'is being'} deleted: by "
        f"{facts.get('deleted_by', '')}, {at}, {facts.get('delete_reason', '')!r}."
    )
    raise NotFoundError(message, code="job.record.deleted")


async def job_document(rt: Reading, job: Job) -> Document:
    """Return a job with its chunks, dead letters, findings and certificate."""
    snapshot, open_ = JobSnapshot(), new_open_chunks(job)
    explained: Document = {}
    async for chunk in all_chunks(rt.table, job.ref, job.chunks):
        snapshot.add(chunk)
        if open_ is not None:
            open_.add(chunk)
    if open_ is not None:
        found = await explain(rt, job, open_)
        explained = {name: found[name] for name in ("findings", "finish")}
    known = job_facts(job, rt.clock())
    noted = known.get("status_reason", {}).get("code") == "runtime.pipeline.unknown"
    found_codes = {finding["code"] for finding in explained.get("findings", ())}
    if noted and not found_codes & {"workers.none", "workers.pipeline_missing"}:
        del known["status_reason"]  # another worker has the pipeline by now
    return {
        **known,
        **(
            {"notifications": await read_notifications(rt, job)}
            if job.has_notify_hook
            else {}
        ),
        **await budget_facts(rt, job),
        "counts": dict(sorted(snapshot.by_status.items())),
        "error_codes": dict(sorted(snapshot.by_code.items())),
        "calls": {
            "paid": snapshot.calls,
            "cached": snapshot.cached_calls,
            "lost_claims": snapshot.lost_claims,
        },
        "outages": snapshot.outages,
        **explained,
        "dead_letters": await dead_letters_of(rt).count_open(job.ref),
        "certificate": await read_certificate(rt, job),
    }


async def budget_facts(rt: Reading, job: Job) -> Document:
    """Return what a job has spent, reserved and may spend; empty without a budget."""
    if not job.budget:
        return {}
    # Imported here: a command that shows a job without a budget does not load it.
    from piecework.store.budgets import Budgets

    budget = await Budgets(rt.table, rt.clock, rt.table.rng).of_job(job)
    return {} if budget is None else {"budget": budget_document(budget, rt.clock())}


def budget_document(budget: Budget, now: float) -> Document:
    """Return a budget in tokens and dollars; a kind without a cap has None."""
    from piecework.resilience.limits import micros

    at, cap = micros(now), budget.cap
    amounts = {
        "spent": budget.spent,
        "reserved": budget.reserved(at),
        "uncertain": budget.uncertain(at),
    }
    return {
        "cap_tokens": cap.tokens,
        **{f"{word}_tokens": amount.tokens for word, amount in amounts.items()},
        "cap_usd": None if cap.nano_usd is None else cap.nano_usd / NANO,
        **{f"{word}_usd": amount.nano_usd / NANO for word, amount in amounts.items()},
    }


def pause_command(job: Mapping[str, Any]) -> str:
    """Return the command that ends the pause of a job, by its document."""
    pause = job["pause"]
    if pause["code"] == PauseCode.PIPELINE:
        return f"piecework pipelines resume {job['pipeline']}"
    if pause["code"] != PauseCode.BUDGET:
        return f"piecework jobs resume {job['job']}"
    if pause.get("until"):
        return f"piecework budgets set {job['tenant']} --daily-{pause['unit']} N"
    return f"piecework jobs set-budget {job['job']} --budget-{pause['unit']} N"


def job_facts(job: Job, now: float) -> Document:
    """Return the facts on the job's own item, as they are now."""
    facts = job.pick(JOB_FACTS)
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
    pause = job.pause
    parts = {
        "pause": None if pause is None else pause.document(),
        "status_reason": status_reason(job, now),
        "cancel": cancel_facts(job),
        "deletion": deletion_facts(job),
    }
    return document | {name: part for name, part in parts.items() if part}


def deletion_facts(job: Job) -> Document | None:
    """Return by which operator, why and when a job was deleted, and its proof."""
    if not job.status.gone:
        return None
    return {**job.deletion, **job.pick(("certificate_sha256", "outcomes"))}


def status_reason(job: Job, now: float) -> Document | None:
    """Return why the job makes no progress; None if it does, or if that is over."""
    reason = job.status_reason
    if reason is None or job.status.ended:
        return None
    over = bool(reason["until"]) and moment(reason["until"]) <= now
    return None if over else reason


def new_open_chunks(job: Job) -> OpenChunks | None:
    """Return a collection of the open chunks of a job; None: it has ended."""
    if job.status.ended:
        return None
    # Imported here: a command that shows an ended job does not load it.
    from piecework.explain.finish_time import ChunkTimes
    from piecework.explain.situation import OpenChunks

    return OpenChunks(ChunkTimes(job.gen))


async def explain(rt: Reading, job: Job, open_: OpenChunks | None = None) -> Document:
    """Return why a job has not ended, the most important finding first, and its finish.

    `open_`: its open chunks, and the times of all of them, if they were read before.
    """
    from piecework.explain.situation import read_situation

    return explanation(await read_situation(rt, job, open_))


def explanation(situation: Situation) -> Document:
    """Return the findings of a situation, and its finish."""
    from piecework.explain.causes import find, finish_time

    job, findings = situation.job, find(situation)
    finish = finish_time(situation, findings[0])
    return {
        "job": job.ref.job,
        "status": str(job.status),
        "findings": [finding.document for finding in findings],
        "finish": finish_document(finish, situation.now) if finish else None,
    }


def finish_document(finish: FinishTime, now: float) -> Document:
    """Return when a job probably ends."""
    return {
        "p50_s": round(finish.p50_s, 1),
        "p90_s": round(finish.p90_s, 1),
        "p50_at": iso(now + finish.p50_s),
        "p90_at": iso(now + finish.p90_s),
    }


async def read_certificate(rt: Reading, job: Job) -> Document | None:
    """Return the certificate of an ended job, checked by its hash; None before.

    Raises:
        PermanentError: `runtime.payload.corrupt`.
    """
    if not job.status.ended or not job.certificate:
        return None
    prefix = keys.object_prefix(job.ref.tenant, job.ref.job)
    key = own_key(job.certificate, prefix)
    most = OBJECT_LIMIT + CERTIFICATE_BYTES_PER_CHUNK * job.chunks
    content = await rt.objects.get(key, most=most)
    verify(content, job.certificate_sha256, f"The certificate {key}")
    bounds = Bounds(most, nodes=keys.MAX_CHUNK_NUMBER)
    return records.read_document(content, f"The certificate {key}", bounds)


def dead_letters_of(rt: Reading) -> DeadLetters:
    """Return the dead letters of a deployment."""
    return DeadLetters(rt.dead_letters, rt.settings, rt.clock)


async def read_chunks(
    rt: Reading, job: Job, statuses: Collection[str] = ()
) -> AsyncIterator[Document]:
    """Yield the chunks of a job, in order; only those of these statuses, if any."""
    stopped = await dead_letters_of(rt).stopped_keys(job)
    async for chunk in all_chunks(rt.table, job.ref, job.chunks):
        if not statuses or str(chunk.status) in statuses:
            yield chunk_facts(chunk, rt.clock(), stopped)


def chunk_facts(chunk: Chunk, now: float, stopped: Collection[str]) -> Document:
    """Return the attributes of a chunk, and the reason of its wait."""
    wait = wait_of(chunk, now, stopped)
    return {**chunk.facts, **({"wait": wait.document} if wait else {})}


async def require_chunk(rt: Reading, ref: ChunkRef) -> Chunk:
    """Return a chunk.

    Raises:
        NotFoundError: `job.chunk.not_found`.
    """
    chunk = await read_chunk(rt.table, ref)
    if chunk is None:
        message = f"Chunk {ref} does not exist."
        step = f"`piecework chunks list {ref.job}`"
        raise NotFoundError(message, code="job.chunk.not_found", next_step=step)
    return chunk


async def chunk_document(rt: Reading, job: Job, number: int) -> Document:
    """Return a chunk with its stages, calls, effects, errors and compensations.

    An open chunk of a paused job has the pause, too.
    """
    ref = job.ref.chunk(number)
    chunk, work, stopped = await asyncio.gather(
        require_chunk(rt, ref),
        read_work(rt.table, ref),
        dead_letters_of(rt).stopped_keys(job),
    )
    pause = None if chunk.status.terminal else job.pause
    return {
        **chunk_facts(chunk, rt.clock(), stopped),
        **({} if pause is None else {"job_paused": pause.document()}),
        "stages": stage_documents(chunk, work),
        "calls_in_journal": sum(
            len(page.calls) + len(page.large) for page in work.calls
        ),
        "effects": sorted(
            (effect_document(row) for row in work.effects),
            key=lambda document: str(document["started_at"]),
        ),
        "errors": [row.facts for row in told_once(work.errors)],
        "compensated": sorted(
            (compensation_document(row) for row in work.compensated),
            key=lambda document: str(document["at"]),
        ),
    }


async def result_document(rt: Reading, job: Job, number: int) -> Document:
    """Return the result of a chunk, of a long one its beginning, or why neither.

    A chunk without a result has an empty document.
    """
    ref = job.ref.chunk(number)
    chunk = await require_chunk(rt, ref)
    if chunk.status is not ChunkStatus.SUCCEEDED:
        return {}
    ((_, row),) = await stored_results(rt.table, ref.pk, [chunk])
    prefix = keys.object_prefix(job.ref.tenant, job.ref.job)

    async def get(key: str) -> bytes:
        return await rt.objects.get(key, most=OBJECT_LIMIT)

    try:
        text = NULL if row is None else await read_value(get, row, prefix)
    except PieceworkError as error:
        return {"result_error": f"{error.code}: {error.message}"}
    size = len(text.encode())
    if size > RESULT_BYTES:
        return {"result_excerpt": text[:RESULT_EXCERPT], "result_bytes": size}
    return {"result": read_json(text, Bounds(RESULT_BYTES), finite=False)}


def stage_documents(chunk: Chunk, work: Work) -> list[Document]:
    """Return the stages with a stored value, in the order of their end."""
    names = ("stage", "started_at", "finished_at", "worker", "attempt", "gen", "fence")
    done = [row.document(names) | {"is_result": False} for row in work.stages]
    if is_inline(chunk):
        values = (chunk.stage, chunk.started_at, chunk.settled_at, chunk.ended_by)
        more = (chunk.attempts, chunk.gen, chunk.fence)
        done.append(dict(zip(names, values + more, strict=True)) | {"is_result": True})
    elif work.result is not None:
        done.append(work.result.document(names) | {"is_result": True})
    return sorted(done, key=lambda row: str(row["finished_at"]))


def effect_document(row: EffectRow) -> Document:
    """Return an effect of the ledger as a document."""
    names = ("stage", "state", "effect", "started_at", "ended_at", "effect_key")
    return row.document(names)


def compensation_document(row: CompensatedRow) -> Document:
    """Return a compensation as a document.

    A stage that was compensated in an earlier generation may have run again since.
    """
    ok = not row.has_failed
    return {"stage": row.stage, "at": row.finished_at, "gen": row.gen, "ok": ok}


# ── read the end of a job ─────────────────────────────────────────────────────


def cancel_facts(job: Job) -> dict[str, Any] | None:
    """Return the facts of the job's cancel; None: it is not cancelled now.

    Durations are in seconds. They span the clocks of several machines, which may differ
    a little.
    """
    if job.status not in {JobStatus.CANCELLING, JobStatus.CANCELLED}:
        return None
    names = ("cancelled_by", "cancel_reason", "cancel_code", "cancel_compensates")
    facts = job.pick((*names, "cancelled_at"))
    if job.status is JobStatus.CANCELLING or not job.quiesced_at:
        return facts
    facts |= job.pick(("compensations",))
    requested = moment(job.cancelled_at)
    return facts | {
        "quiesced_after_s": round(moment(job.quiesced_at) - requested, 3),
        "cancelled_after_s": round(moment(job.finished_at) - requested, 3),
        "calls_after_cancel": job.calls_after_cancel,
    }


async def read_notifications(rt: Reading, job: Job) -> list[dict[str, Any]]:
    """Return the notifications of the job: those delivered, and those outstanding."""
    names = ("event", "gen", "at", "state", "attempts", "delivered_at", "last_error")
    rows = await Notifications(rt.table, rt.clock).of(job.ref)
    return [row.pick(names) for row in rows]


# ── list the jobs of a tenant with their progress ─────────────────────────────


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Filters of jobs.

    Attributes:
        statuses: Empty: all.
        pipeline: `review*` matches all pipelines that begin so.
        since_s: Seconds within which the jobs were created; None: at any time.
    """

    statuses: frozenset[str] = frozenset()
    pipeline: str = "*"
    since_s: float | None = None

    @classmethod
    def parse(cls, statuses: Iterable[str], pipeline: str, since: str) -> JobFilter:
        """Return the filter that words express; a status in any case.

        Raises:
            UsageError: `cli.usage.invalid`.
        """
        known = frozenset(parse_status(status, JobStatus) for status in statuses)
        return cls(known, pipeline, parse_limit(since))


async def read_jobs(
    rt: Reading, wanted: JobFilter, too_new: list[JobRef]
) -> AsyncIterator[Document]:
    """Yield a tenant's jobs with their progress, the newest first.

    Jobs that a newer version wrote cannot be read; they are added to `too_new`.
    """
    since = "" if wanted.since_s is None else iso(rt.clock() - wanted.since_s)
    async for ref in rt.jobs.listed(rt.settings.tenant, wanted.pipeline, since):
        try:
            job = await rt.jobs.read(ref)
        except SchemaTooNewError:
            too_new.append(ref)
            continue
        if job is None:
            continue
        if not wanted.statuses or str(job.status) in wanted.statuses:
            yield {**job_facts(job, rt.clock()), **await progress_of(rt, job)}


async def progress_of(rt: Reading, job: Job) -> Document:
    """Return the number of ended chunks, and the outcomes of an ended job."""
    if job.status.ended or job.status.gone:
        outcomes = dict(job.outcomes or {})
        return {"ended_chunks": sum(outcomes.values()), "outcomes": outcomes}
    if job.status is JobStatus.SUBMITTING:
        return {"ended_chunks": 0}
    if job.chunks > MAX_COUNTED_CHUNKS:
        return {"ended_chunks": job.ended_at_least}
    return {"ended_chunks": await Tallies(rt.table).count_ended(job.ref, job.chunks)}
