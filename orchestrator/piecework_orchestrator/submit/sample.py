"""Wait for the sample of a job, and forecast what its rest uses."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from piecework.aws.payloads import PayloadRef
from piecework.domain.batch import CollectorRow
from piecework.domain.budget import NANO
from piecework.domain.call_usage import CallUsage
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.moments import moment
from piecework.domain.states import ChunkStatus
from piecework.errors import UsageError, WaitTimeoutError
from piecework.explain.situation import if_readable
from piecework.jobs.fan_out import Progress
from piecework.jobs.sampling import end_sample, sample_chunks
from piecework.resilience.batching import usual_s
from piecework.resilience.lanes import BATCH, BATCH_SHARE
from piecework.runtime import Runtime
from piecework.store.batch_reads import BatchReads
from piecework.store.breakers import FleetRecord, read_fleet
from piecework.store.paid import usage_of
from piecework.store.table import Table
from piecework.store.workers import read_reports
from piecework_orchestrator.cost.bill import BillLine, call_lines, total
from piecework_orchestrator.cost.forecast import (
    AMOUNTS,
    Fleet,
    Rest,
    Sampled,
    forecast_amount,
    forecast_seconds,
    remarks,
)
from piecework_orchestrator.cost.job import any_price, aws_usd_of, price_notes
from piecework_orchestrator.cost.prices import Prices, load_prices
from piecework_orchestrator.reading.job_documents import Document, explain, require_job
from piecework_orchestrator.reading.times import format_span
from piecework_orchestrator.reading.watch import (
    EXPLAIN_AFTER_S,
    POLL_S,
    Watcher,
    describe_finding,
)


async def wait_for_sample(
    rt: Runtime,
    job: str,
    timeout_s: float | None = None,
    progress: Progress = lambda *_: None,
    watcher: Watcher | None = None,
) -> Job:
    """Wait until the sample of a job has ended, and end it; return the job.

    The end pauses the job, or starts its rest: see `piecework.jobs.sampling`.
    Another pause, such as that of a spent budget, ends the wait: it may last for days.
    `watcher`: remarks why the sample makes no progress.

    Raises:
        WaitTimeoutError: `cli.wait.timeout`; the sample continues.
        UsageError: `job.sample.missing`.
    """
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            return await poll_sample(rt, job, progress, watcher)
    except TimeoutError:
        if not limit.expired():
            raise
        message = f"The sample of job {job} has not ended after {timeout_s:g} s."
        step = f"`piecework jobs forecast {job}`"
        raise WaitTimeoutError(message, next_step=step) from None


async def poll_sample(
    rt: Runtime, job: str, progress: Progress, watcher: Watcher | None
) -> Job:
    """Poll the sample until it has stopped; end it, unless a process has."""
    now = asyncio.get_running_loop().time
    last, changed_at = -1, now()
    while not has_stopped(found := await require_sampled(rt, job)):
        chunks = await sample_chunks(rt, found)
        ended = sum(chunk.status.ended for chunk in chunks)
        progress("sampled", ended)
        if ended == len(found.sample) and await end_sample(rt, found):
            continue
        if ended != last:
            last, changed_at = ended, now()
        elif watcher is not None and now() - changed_at >= EXPLAIN_AFTER_S:
            explained = await explain(rt, found)
            watcher.remark_once(describe_finding(explained["findings"][0], watcher))
            changed_at = now()
        await asyncio.sleep(POLL_S)
    return found


def has_stopped(job: Job) -> bool:
    """Return whether the sample has ended, or waits for a person to end a pause."""
    return job.pause is not None or not job.holds_rest or job.status.ended


async def require_sampled(rt: Runtime, job: str) -> Job:
    """Return a job that has a sample.

    Raises:
        NotFoundError: `job.record.not_found`.
        UsageError: `job.sample.missing`.
    """
    found = await require_job(rt, job)
    if not found.sample:
        message = f"Job {job} has no sample, so nothing is known of its rest."
        step = f"`piecework jobs show {job}` says when it ends, and `piecework jobs "
        step += f"cost {job}` what it has cost."
        raise UsageError(message, code="job.sample.missing", next_step=step)
    return found


async def forecast_job(rt: Runtime, job: Job, prices: Path | None = None) -> Document:
    """Return what the rest of a job will use, from what has ended of its sample.

    Amounts are None if no chunk has ended; the cost also if no price is known.

    Raises:
        UsageError: `config.prices.invalid`, `cli.extra.missing`.
    """
    table = load_prices(prices)
    chunks, fleet, reports, lanes = await asyncio.gather(
        sample_chunks(rt, job),
        if_readable(read_fleet, rt.table),
        if_readable(read_reports, rt.table),
        if_readable(batch_models, rt.table, job),
    )
    done = [chunk for chunk in chunks if chunk.status.ended]
    sample = [
        sampled(chunk, (await usage_of(rt.table, chunk))[0], table) for chunk in done
    ]
    now = rt.clock()
    live = [
        worker
        for worker in reports or ()
        if job.pipeline in worker.pipelines and worker.is_live(now)
    ]
    workers = Workers(len(live), sum(worker.max_chunks for worker in live))
    used = CallUsage(most=sys.maxsize)
    for each in sample:
        used.merge(each.usage)
    lines = list(call_lines(used, table))
    head = {
        "job": job.ref.job,
        "tenant": job.ref.tenant,
        "pipeline": job.pipeline,
        "status": str(job.status),
        "pause": None if job.pause is None else job.pause.document(),
        "sample": {
            "chunks": len(job.sample),
            "ended": len(done),
            "failed": sum(each.failed for each in sample),
            "usd": total(lines) if any_price(lines) else None,
        },
        "rest": job.chunks - len(job.sample),
        "workers": workers.number,
        "slots": workers.slots,
    }
    if not sample:
        nothing: Document = dict.fromkeys(
            ("calls", "tokens_in", "tokens_out", "usd", "direct_usd", "aws_usd")
        )
        unknown = {
            "time_s": None,
            "limited_by": "",
            "notes": ["no chunk has ended yet"],
        }
        return {**head, **nothing, **unknown}
    numbers = [chunk.ref.chunk for chunk in done]
    aws = await aws_usd_of(rt, job, numbers, table)
    rest = job.chunks - len(job.sample)
    return {
        **head,
        **ranges(job, done, sample, workers, fleet, lines, lanes or {}),
        "aws_usd": None if aws is None else round(aws * rest, 6),
    }


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers that run the pipeline of a job now, and their slots."""

    number: int
    slots: int


def ranges(
    job: Job,
    done: Sequence[Chunk],
    sample: Sequence[Sampled],
    workers: Workers,
    record: FleetRecord | None,
    lines: Sequence[BillLine],
    lanes: Mapping[str, CollectorRow],
) -> Document:
    """Return the amounts and the time of the rest, and remarks on them."""
    sampled_bytes = sum(PayloadRef.parse(chunk.payload).length for chunk in done)
    others = max(1, job.chunks - len(done))
    rest = Rest(
        job.chunks - len(job.sample),
        max(0, job.payload_bytes - sampled_bytes) / others,
        job.largest_payload,
    )
    quotas = record.quotas if record else {}
    fleet = Fleet(
        workers.number,
        workers.slots,
        ran_at_once(done),
        {name: quota.limits for name, quota in quotas.items()},
    )
    amounts = {
        name: forecast_amount(sample, rest, paid_amount(name)) for name in AMOUNTS
    }
    # The rest is large enough for batches, although a small sample is not.
    usd = forecast_amount(sample, rest, partial(lane_usd, lanes))
    direct = forecast_amount(sample, rest, direct_usd)
    seconds, limited_by = forecast_seconds(sample, rest, fleet)
    priced = any_price(lines)
    notes = remarks(
        len(sample), len(job.sample), [*amounts.values(), usd], workers.number
    )
    if job.status.ended:
        notes.insert(0, "the job has ended: `piecework jobs cost` has what it used")
    notes += batch_notes(sample, lanes)
    return {
        **{name: found.document() for name, found in amounts.items()},
        "usd": usd.document(6) if priced else None,
        "direct_usd": direct.document(6) if priced and direct != usd else None,
        "time_s": seconds.document(1),
        "limited_by": limited_by,
        "notes": [*notes, *price_notes(lines)],
    }


def paid_amount(name: str) -> Callable[[Sampled], float]:
    """Return the function of what a chunk used of an amount."""
    return lambda chunk: chunk.usage.total("paid")[name]


async def batch_models(table: Table, job: Job) -> dict[str, CollectorRow]:
    """Return the models that the tenant asks in batches, by their names in a bill.

    A job that overrides the lanes has none.
    """
    if job.lane:
        return {}
    found = BatchReads(table).collectors(job.ref.tenant)
    return {row.billed: row async for _, row in found}


def lane_usd(lanes: Container[str], chunk: Sampled) -> float:
    """Return what the calls of a chunk cost in batches, at half the price.

    A call of the sample may have gone direct, because too few others were gathered.
    """
    paid = chunk.usage.models("paid")
    nano_usd = sum(each["nano_usd"] for m, each in paid.items() if m in lanes)
    return chunk.usd - (1 - BATCH_SHARE) * nano_usd / NANO


def batch_notes(
    sample: Sequence[Sampled], lanes: Mapping[str, CollectorRow]
) -> list[str]:
    """Return what batches mean for the forecast: their price, and their time."""
    notes = []
    used = {name for chunk in sample for name in chunk.usage.models("paid")}
    for model, row in sorted(lanes.items()):
        names = {model, f"{model} {BATCH}"} & used
        if not names:
            continue
        if model in names:
            notes.append(
                f"calls of the sample to {model} went direct: the rest is forecast "
                "in batches, at half the price"
            )
        took = row.durations
        usual = f" (95 of 100 took {format_span(usual_s(took))})" if took else ""
        notes.append(f"the time leaves out the wait for batches of {model}{usual}")
    return notes


def direct_usd(chunk: Sampled) -> float:
    """Return what the calls of a chunk would have cost in no cheaper tier."""
    return chunk.usd + chunk.usage.total("saved_by_tier")["nano_usd"] / NANO


def sampled(chunk: Chunk, usage: CallUsage, prices: Prices) -> Sampled:
    """Return what the forecast needs of an ended chunk."""
    return Sampled(
        size=PayloadRef.parse(chunk.payload).length,
        usage=usage,
        usd=total(call_lines(usage, prices)),
        seconds=seconds_of_claims(chunk),
        failed=chunk.status is ChunkStatus.DEAD,
    )


def seconds_of_claims(chunk: Chunk) -> float:
    """Return the time for which workers owned a chunk."""
    spans = [(str(entry["from"]), str(entry["to"])) for entry in chunk.history]
    if chunk.claimed_at and chunk.ended_at:
        spans.append((chunk.claimed_at, chunk.ended_at))
    return math.fsum(moment(end) - moment(start) for start, end in spans)


def ran_at_once(done: Sequence[Chunk]) -> int:
    """Return the most chunks of the sample that ran at the same time."""
    spans = [(c.claimed_at, c.ended_at) for c in done if c.claimed_at]
    return max((sum(a <= at < b for a, b in spans) for at, _ in spans), default=1)
