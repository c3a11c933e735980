"""Read a job from the record, as a document for people and programs.

Nothing here writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from piecework.aws.objects import OBJECT_LIMIT, own_key, verify
from piecework.domain import keys, records
from piecework.domain.batch import GATHERED
from piecework.domain.budget import NANO
from piecework.domain.job import Job
from piecework.domain.moments import iso, moment
from piecework.domain.outcome import PINNED_CODE, UNKNOWN_CODE
from piecework.domain.pause import PauseCode
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.domain.strict_json import Bounds
from piecework.errors import NotFoundError
from piecework.reading import Reading
from piecework.resilience.lanes import BATCH
from piecework.store.completion import JobSnapshot, all_chunks
from piecework.store.dead_letters import MOST_LETTERS, DeadLetters
from piecework.store.notifications import Notifications
from piecework_orchestrator.reading.calls_so_far import CallsSoFar

if TYPE_CHECKING:
    from piecework.domain.call_usage import CallUsage
    from piecework.explain.finish_time import FinishTime
    from piecework.explain.situation import OpenChunks, Situation
    from piecework.resilience.budget import Budget
    from piecework.store.paid import Paid
    from piecework_orchestrator.reading.samples import ChunkSample

Document = dict[str, Any]
#: Maximum bytes of a chunk in a certificate, which names every chunk of its job. A
#: chunk with a result takes 80 bytes; a chunk without one also has its label.
CERTIFICATE_BYTES_PER_CHUNK = 1024
#: Chunks of the largest job of which every chunk is read: eleven groups.
MAX_READ_CHUNKS = 11 * keys.PARTITION_SIZE
#: Bytes that have all of a certificate that names no chunk.
HEAD_BYTES = 128 * 1024
#: The last parts of a job's document.
LAST_PARTS = ("dead_letters", "certificate")
#: A worker without the pipeline noted the reason on the job. It is still the reason
#: beside one of these findings, while no chunk runs. Each says that no worker has the
#: pipeline, or that a role of one tenant cannot read the workers.
PIPELINE_MISSING = {"workers.none", "workers.pipeline_missing", "fleet.unreadable"}
PIPELINE_MISSING |= {"workers.version_missing"}
JOB_FACTS = (
    "queue",
    "pinned_to",
    "lane",
    "tags",
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
    "left_out_rows",
    "left_out",
    "stopped_at",
    "stopped_code",
    "delete_after",
    "kept_at",
    "priority",
    "sample_chunks",
    "parent_job",
    "parent_chunk",
    "parent_stage",
    "root_job",
    "manifest",
    "manifest_sha256",
)


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
    step = (
        f"See its tombstone with `piecework jobs show {job.ref.job}`; submit with "
        "another job id."
    )
    raise NotFoundError(message, code="job.record.deleted", next_step=step)


async def job_document(rt: Reading, job: Job) -> Document:
    """Return a job with its chunks, dead letters, findings and certificate.

    Of a large job, the chunks are counted by tallies, and the certificate is without
    its chunks. `counts_exact` says whether the counts are exact.
    """
    if job.chunks <= MAX_READ_CHUNKS:
        counted = await count_all(rt, job)
    elif job.status.ended:
        counted = await counts_of_ended(rt, job)
    else:
        counted = await counts_of_large(rt, job)
    explained = counted.pop("explained", {})
    usage, batches = counted.pop("usage"), explained.pop("batches", ())
    known = job_facts(job, rt.clock())
    left = {UNKNOWN_CODE, PINNED_CODE}
    noted = known.get("status_reason", {}).get("code") in left
    chunks = {one["code"]: one["chunks"] for one in explained.get("findings", ())}
    runs = chunks.get("job.progressing", 0) > 0
    if noted and (runs or not chunks.keys() & PIPELINE_MISSING):
        del known["status_reason"]  # another worker has the pipeline by now
    return {
        **known,
        **(
            {"notifications": await read_notifications(rt, job)}
            if job.has_notify_hook
            else {}
        ),
        **await budget_facts(rt, job),
        **{name: part for name, part in counted.items() if name not in LAST_PARTS},
        **batch_facts(usage, batches),
        **explained,
        **{name: counted[name] for name in LAST_PARTS},
    }


async def count_all(rt: Reading, job: Job) -> Document:
    """Read every chunk of a job, and return what they add up to."""
    snapshot, open_, so_far = JobSnapshot(), new_open_chunks(job), CallsSoFar()
    async for chunk in all_chunks(rt.table, job.ref, job.chunks):
        snapshot.add(chunk)
        so_far.add(chunk)
        if open_ is not None:
            open_.add(chunk)
    counted: Document = {
        "counts": dict(sorted(snapshot.by_status.items())),
        "counts_exact": True,
        "error_codes": dict(sorted(snapshot.by_code.items())),
        "code_versions": dict(sorted(snapshot.by_version.items())),
        "calls": so_far.facts,
        "usage": so_far.usage,
        "effects_in_doubt": sum(snapshot.in_doubt.values()),
        "outages": snapshot.outages,
        "dead_letters": await dead_letters_of(rt).count_open(job.ref),
        "certificate": await read_certificate(rt, job),
    }
    if open_ is not None:
        counted["explained"] = parts_of(await explain(rt, job, open_))
    return counted


async def counts_of_ended(rt: Reading, job: Job) -> Document:
    """Return what the chunks of a large ended job add up to, by its certificate.

    The certificate has no tokens and no money: a sample of its chunks stands for all.
    """
    from piecework_orchestrator.reading.samples import read_sample

    letters = await dead_letters_of(rt).count(job.ref, MOST_LETTERS)
    head = await read_certificate_head(rt, job) or {}
    sample = await read_sample(rt, job, range(keys.partition_count(job.chunks)))
    exact = {"paid_again": head.get("paid_again", 0), **(head.get("calls") or {})}
    return {
        "counts": dict(job.outcomes or {}),
        "counts_exact": letters.complete,
        "error_codes": head.get("error_codes", {}),
        "code_versions": head.get("code_versions", {}),
        "calls": {**calls_facts(sample), **(exact if head else {})},
        "usage": sample.calls.usage,
        "effects_in_doubt": job.effects_in_doubt,
        "outages": head.get("outages"),
        "dead_letters": letters.open,
        "certificate": head or None,
    }


async def counts_of_large(rt: Reading, job: Job) -> Document:
    """Return what is known of the chunks of a large job that has not ended.

    Its effects in doubt and outages are added up when it ends. The code versions are
    those of the chunks in progress. A sample of its chunks stands for the calls of all.
    """
    from piecework_orchestrator.reading.large_jobs import count_large, sample_large

    counted = await count_large(rt, job)
    sample = await sample_large(rt, job, counted)
    return {
        "counts": dict(sorted(counted.by_status.items())),
        "counts_exact": counted.exact,
        "error_codes": dict(sorted(counted.letters.codes.items())),
        "code_versions": dict(sorted(counted.by_version.items())),
        "calls": calls_facts(sample),
        "usage": sample.calls.usage,
        "effects_in_doubt": None,
        "outages": None,
        "dead_letters": counted.letters.open,
        "certificate": None,
        "explained": parts_of(await explain(rt, job)),
    }


def calls_facts(sample: ChunkSample) -> Document:
    """Return the calls of a large job, and by how many chunks they are estimated."""
    facts = sample.calls.facts
    return facts if sample.exact else {**facts, "sampled_chunks": sample.number}


def parts_of(explained: Document) -> Document:
    """Return the parts of an explanation that a job's document has."""
    return {name: explained[name] for name in ("findings", "finish", "batches")}


def batch_facts(usage: CallUsage, batches: Sequence[Document]) -> Document:
    """Return the calls of a job in the batch lane; empty: it has made none.

    `batches`: those that are open, and what is gathered. A call has gone direct once a
    model that answers others in batches has answered it directly.
    """
    paid, suffix = usage.models("paid"), f" {BATCH}"
    models = {name.removesuffix(suffix) for name in paid if name.endswith(suffix)}
    models |= {each["billed_as"] for each in batches}
    if not models:
        return {}
    waits = Counter[bool]()
    for each in batches:
        waits[each["phase"] == GATHERED] += each["of_job"]
    answered = sum(paid.get(name + suffix, {}).get("calls", 0) for name in models)
    direct = sum(paid.get(name, {}).get("calls", 0) for name in models)
    facts = {
        "requested": waits.total() + answered + direct,
        "gathered": waits[True],
        "in_batches": waits[False],
        "answered": answered,
        "direct": direct,
    }
    return {"batch_calls": facts}


async def budget_facts(rt: Reading, job: Job) -> Document:
    """Return what a job has spent, reserved and may spend; empty without a budget.

    What lost workers may have spent is read from the record of the calls, as `jobs
    cost` reads it.
    """
    if not job.budget:
        return {}
    # Imported here: a command that shows a job without a budget does not load it.
    from piecework.resilience.limits import micros
    from piecework.store.budgets import Budgets
    from piecework.store.children import has_children
    from piecework.store.paid import paid_by

    budget = await Budgets(rt.table, rt.clock, rt.table.rng).of_job(job)
    if budget is None:
        return {}
    lost = budget.uncertain(micros(rt.clock()))
    alone = job.parent is None and not await has_children(rt.table, job.ref)
    # The record of this job lacks the calls of the others that spend the budget.
    paid = await paid_by(rt.table, job) if lost and alone else None
    return {"budget": budget_document(budget, rt.clock(), paid)}


def budget_document(budget: Budget, now: float, paid: Paid | None = None) -> Document:
    """Return a budget in tokens and dollars; a kind without a cap has None.

    `paid`: what the record of the calls has; it replaces the slices of lost workers
    once other workers have ended their stages.
    """
    from piecework.resilience.limits import micros
    from piecework.store.paid import in_budget

    at, cap = micros(now), budget.cap
    amounts = {
        "spent": budget.spent,
        "reserved": budget.reserved(at),
        "uncertain": budget.uncertain(at),
    }
    if paid is not None and not paid.unrepeated:
        recorded, amounts["uncertain"] = in_budget(paid)
        amounts["spent"] = recorded.at_least(budget.spent)
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
    if pause["code"] == PauseCode.PARENT:
        return f"piecework jobs resume {job['parent_job']}"
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
        "code_changes": job.code_changes,
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
    """Return why the job makes no progress; None if it does, or if that is over.

    What was noted before a retry tells nothing of the workers after it.
    """
    reason = job.status_reason
    if reason is None or job.status.ended or reason["at"] < job.reopened_at:
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
        "stopped": situation.stopped,
        "batches": [
            {**each.document, "of_job": sum(each.chunks_of(job.ref.job).values())}
            for each in situation.batches
        ],
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


async def read_certificate_head(rt: Reading, job: Job) -> Document | None:
    """Return a certificate without what names single chunks; None: there is none.

    Only its first bytes are read, so its hash is not checked.

    Raises:
        PermanentError: `runtime.record.unreadable`.
    """
    if not job.status.ended or not job.certificate:
        return None
    key = own_key(job.certificate, keys.object_prefix(job.ref.tenant, job.ref.job))
    start = await rt.objects.get(key, length=HEAD_BYTES)
    head = (
        start.partition(keys.CERTIFICATE_HEAD_ENDS)[0].rstrip().removesuffix(b",")
        + b"}"
    )
    return records.read_document(head, f"The certificate {key}", Bounds(HEAD_BYTES))


def dead_letters_of(rt: Reading) -> DeadLetters:
    """Return the dead letters of a deployment."""
    return DeadLetters(rt.dead_letters, rt.settings, rt.clock)


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
