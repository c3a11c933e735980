"""Split the input into chunks and start the job; safe to interrupt and to repeat.

    read and pack -> manifest -> META -> chunks -> count -> messages

The job does not exist until META is written, so bad input leaves no unfinished job.
From then on the manifest defines the job, and any process can finish the submit.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from random import Random

from piecework.cost.meter import acting_as
from piecework.domain import keys
from piecework.domain.budget import NO_CAP, Cap
from piecework.domain.chunk_input import ChunkInput
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.priority import Priority
from piecework.domain.refs import JobRef
from piecework.domain.retention import life_of_rows
from piecework.domain.tags import checked_tags, read_tags, tags_text
from piecework.errors import UsageError
from piecework.jobs.fan_out import Progress, fan_out
from piecework.jobs.manifest import write_manifest
from piecework.jobs.packing import Packed, pack, start_of_backlog
from piecework.jobs.sampling import draw_sample
from piecework.pipelines import Pipeline
from piecework.runtime import Runtime
from piecework.saga.code_version import code_version
from piecework.saga.shape import shape_of
from piecework.telemetry.traces import submitting
from piecework_orchestrator.reading.job_documents import require_not_deleted
from piecework_orchestrator.submit.intake.refusals import Refusals
from piecework_orchestrator.submit.models import require_prices


@dataclass(frozen=True, slots=True)
class Submission:
    """A job to submit.

    Attributes:
        deadline: The time, in epoch seconds, at which the job is cancelled unless it
            has ended; None: never.
        deadline_requested: The deadline as it was requested: a span, or a time.
        tolerate: How many chunks may fail in a job that succeeds: a number, or a share
            such as `2%`.
        priority: Its share of the workers; None: normal, or that of the earlier submit.
        budget: What its calls may spend; the job is paused before they spend more.
        sample: How many random chunks run first, while the rest waits; None: all run.
        goes_on: Whether the end of the sample starts the rest, without a pause.
        pin: Whether only workers of the code version of this submit run the job.
        refusals: The rows that are refused while the chunks are read.
        lane: `direct`: no call waits for a cheaper tier; empty: as the models declare.
        tags: What the submitter says of the job, such as `team: legal`.
    """

    ref: JobRef
    pipeline: Pipeline
    source: str
    submitted_by: str
    deadline: float | None = None
    deadline_requested: str = ""
    tolerate: str | int = 0
    priority: Priority | None = None
    budget: Cap = NO_CAP
    sample: int | None = None
    goes_on: bool = False
    pin: bool = False
    refusals: Refusals = field(default_factory=Refusals)
    lane: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


async def submit(
    rt: Runtime,
    submission: Submission,
    chunks: AsyncIterator[ChunkInput],
    progress: Progress = lambda *_: None,
) -> tuple[Job, bool]:
    """Start a job; return the job, and whether this submit created it.

    Raises:
        StoreError: `aws.queue.not_deployed`: the pipeline's queue does not exist.
        UsageError: `submit.token.conflict`: a job with this id has other content,
            another deadline or another budget; `submit.budget.no_price`;
            `submit.pin.unknown`; `job.tag.invalid`.
        NotFoundError: `job.record.deleted`: a job with this id was deleted.
        PieceworkError: The input is invalid; no job was created.
    """
    ref, name = submission.ref, submission.pipeline.name
    queue = rt.settings.queue_name(submission.pipeline.queue)
    with (
        acting_as("orchestrator"),
        submitting(ref.tenant, ref.job, name, queue) as span,
    ):
        found = await create_and_fan_out(
            rt, submission, chunks, progress, span["traceparent"]
        )
        span["chunks"] = found[0].chunks
        return found


async def create_and_fan_out(
    rt: Runtime,
    submission: Submission,
    chunks: AsyncIterator[ChunkInput],
    progress: Progress,
    traceparent: str = "",
) -> tuple[Job, bool]:
    """Store the payloads and the manifest, then the job, then fan it out."""
    ref = submission.ref
    pinned_to = require_version(rt, submission.pipeline) if submission.pin else ""
    # Refuse a wrong tolerance, sample or tag before the rows are read.
    tolerated_of(submission.tolerate, 0)
    draw_sample(0, submission.sample, rt.rng)
    checked_tags(submission.tags)
    # A deleted job must not get new objects: its tombstone answers first.
    if (found := await rt.jobs.read(ref)) is not None:
        require_not_deleted(found)
    require_prices(submission.pipeline, submission.budget)
    await rt.work.named(submission.pipeline.queue)  # a job without it could not run
    with tempfile.TemporaryFile() as spool:
        packed = await pack(rt, ref, chunks, spool, progress)
        with packed.order.completed(spool) as lines:
            manifest, sha256 = await write_manifest(
                rt.objects, ref.tenant, ref.job, lines
            )
    facts = {
        "pipeline": submission.pipeline.name,
        "first_stage": submission.pipeline.stages[0].name,
        "shape": shape_of(submission.pipeline).write(),
        "chunks": packed.chunks,
        "manifest": manifest,
        "manifest_sha256": sha256,
        "source": submission.source,
        "submitted_by": submission.submitted_by,
        **life_of_rows(rt.clock(), rt.settings.job_retention_days),
        **optional_facts(submission, packed),
        **sample_facts(submission, packed, rt.rng),
        **submission.refusals.facts(),
    }
    if pinned_to:
        facts["pinned_to"] = pinned_to
    if traceparent:
        facts["traceparent"] = traceparent
    if submission.pipeline.queue:
        facts["queue"] = submission.pipeline.queue
    progress("written", 0)  # a submit interrupted after this may have created the job
    existing = await rt.jobs.create(ref, facts)
    if existing is not None:
        check_same(existing, facts, submission.budget)
    job = await rt.jobs.read(ref)
    if job is None:
        message = f"Job {ref.job} was deleted during its submit."
        raise UsageError(message, code="job.record.not_found")
    if not job.sent_at:
        await fan_out(rt, job, progress)
    return job, existing is None


def require_version(rt: Runtime, pipeline: Pipeline) -> str:
    """Return the code version of a pipeline in this process.

    Raises:
        UsageError: `submit.pin.unknown`.
    """
    found = code_version(pipeline, rt.settings)
    if not found:
        message = f"Nothing tells the code version of pipeline {pipeline.name}."
        raise UsageError(message, code="submit.pin.unknown")
    return found


def optional_facts(submission: Submission, packed: Packed) -> dict[str, object]:
    """Return the facts that only some jobs have."""
    facts: dict[str, object] = {}
    priority = submission.priority or Priority.NORMAL
    if submission.priority is not None:
        facts["priority_requested"] = priority
    if priority is not Priority.NORMAL:
        facts["priority"] = priority
    if packed.order.has_keys:
        facts["ordered"] = True
    if (start := start_of_backlog(priority, packed)) is not None:
        facts["backlog_start"] = start
    if tolerated := tolerated_of(submission.tolerate, packed.chunks):
        facts["tolerated_chunks"] = tolerated
    if submission.deadline is not None:
        facts["deadline_at"] = iso(submission.deadline)
    words = {"deadline_requested": submission.deadline_requested}
    words["lane"] = submission.lane
    facts |= {name: word for name, word in words.items() if word}
    if tags := checked_tags(submission.tags):
        facts["tags"] = tags
    if submission.pipeline.notify is not None:
        facts["has_notify_hook"] = True
    if submission.pipeline.ladder is not None and submission.pipeline.ladder.rungs:
        facts["has_ladder"] = True
    budget = submission.budget
    caps = {"budget_tokens": budget.tokens, "budget_nano_usd": budget.nano_usd}
    return facts | {name: cap for name, cap in caps.items() if cap is not None}


def sample_facts(
    submission: Submission, packed: Packed, rng: Random
) -> dict[str, object]:
    """Return the facts of a job whose sample runs first."""
    sample = draw_sample(packed.chunks, submission.sample, rng)
    if not sample:
        return {}
    if packed.order.has_keys:
        message = (
            "A job with order keys cannot have a sample: its chunks have an order."
        )
        step = "Submit some of the rows as a job of their own."
        raise UsageError(message, code="submit.sample.invalid", next_step=step)
    facts: dict[str, object] = {
        "sample": sample,
        "sample_chunks": len(sample),
        "rest_held": True,
        "payload_bytes": packed.payload_bytes,
        "largest_payload": packed.largest_payload,
    }
    return facts | ({"goes_on_after_sample": True} if submission.goes_on else {})


def tolerated_of(tolerate: str | int, chunks: int) -> int:
    """Return the number of chunks that a number or a share of them stands for.

    A share is rounded down.

    Raises:
        UsageError: `submit.tolerance.invalid`.
    """
    text = str(tolerate).strip()
    number, percent, rest = text.partition("%")
    with suppress(InvalidOperation):
        value = Decimal(number)
        most = 100 if percent else keys.MAX_CHUNK_NUMBER
        is_count = bool(percent) or value == value.to_integral_value()
        if not rest and 0 <= value <= most and is_count:
            return int(value * chunks / 100 if percent else value)
    message = f"{text!r} is not a number of chunks, or a share of them."
    step = "Use a number such as 20, or a share such as 2%."
    raise UsageError(message, code="submit.tolerance.invalid", next_step=step)


def check_same(job: Job, facts: dict[str, object], budget: Cap) -> None:
    """Refuse a second submit of the same id that asks for something else.

    An option that is left out keeps its value.

    Raises:
        UsageError: `submit.token.conflict`.
    """
    require_not_deleted(job)
    for name, stored, what in (
        ("pipeline", job.pipeline, "another pipeline"),
        ("manifest_sha256", job.manifest_sha256, "other chunks"),
        ("tolerated_chunks", job.tolerated_chunks, "another tolerance"),
        # Each submit draws other chunks.
        ("sample_chunks", len(job.sample), "another sample"),
    ):
        if stored != facts.get(name, stored):
            raise UsageError(
                f"Job {job.ref.job} exists with {what}: nothing was submitted.",
                code="submit.token.conflict",
                next_step="Submit with another job id, or without one.",
            )
    for name, stored, what, other in (
        (
            "deadline_requested",
            job.deadline_requested or "none",
            "deadline",
            f"To end the job earlier: `piecework jobs cancel {job.ref.job}`",
        ),
        (
            "priority_requested",
            job.priority_requested,
            "priority",
            f"To change it: `piecework jobs set-priority {job.ref.job} PRIORITY`",
        ),
        (
            "lane",
            job.lane or "as declared",
            "lane",
            "Submit with another job id to choose another lane",
        ),
        (
            "pinned_to",
            job.pinned_to or "none",
            "pin",
            f"To remove it: `piecework jobs unpin {job.ref.job}`",
        ),
    ):
        requested = facts.get(name, stored)
        if requested != stored:
            raise conflict_error(job, what, str(stored), str(requested), other)
    tags = read_tags(facts.get("tags", job.tags))
    if tags != job.tags:
        has, other = tags_text(job.tags) or "none", "Submit with another job id."
        raise conflict_error(job, "tag", has, tags_text(tags), other)
    if budget and budget != job.budget:
        has = job.budget.text() or "none"
        change = (
            f"To change the budget: `piecework jobs set-budget {job.ref.job} "
            f"--budget-{job.budget.unit} N`"
        )
        change = change if job.budget else "A later budget needs one at the submit."
        raise conflict_error(job, "budget", has, budget.text(), change)


def conflict_error(
    job: Job, what: str, has: str, requested: str, other: str
) -> UsageError:
    """Return the error of a repeated submit that asks for something else."""
    return UsageError(
        f"Job {job.ref.job} exists, and its {what} is {has}, not {requested}: "
        "nothing was changed.",
        code="submit.token.conflict",
        next_step=f"Repeat the submit without a {what}. {other}",
    )
