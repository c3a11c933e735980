"""Compute the bill of a job: its models from its records, AWS from the counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from piecework.cost.persistence import POLL_S, QUIET_S
from piecework.domain.budget import NOTHING
from piecework.domain.call_usage import CallUsage, UsageKind
from piecework.domain.job import Job
from piecework.domain.moments import moment
from piecework.domain.retention import DAY_S
from piecework.errors import UsageError
from piecework.jobs.deletion import UNITS_PER_S
from piecework.resilience.limits import micros
from piecework.runtime import Runtime
from piecework.store.costs import Costs
from piecework.store.paid import Paid, paid_by
from piecework_orchestrator.cost import bill
from piecework_orchestrator.cost.bill import BillLine, TaskSize
from piecework_orchestrator.cost.prices import Prices, load_prices
from piecework_orchestrator.cost.stored import (
    Stored,
    stored_at_once,
    stored_by,
    stored_of,
)
from piecework_orchestrator.reading.times import format_span

Document = dict[str, Any]

#: The region whose prices the page applies on an emulator.
PRICED_IN: Final = "us-east-1"


async def job_bill(
    rt: Runtime,
    job: Job,
    prices: Prices,
    region: str,
    task: TaskSize,
    known: Paid | None = None,
) -> Document:
    """Return the bill of a job so far; `known`: what its calls used, if it was read.

    Raises:
        UsageError: `config.price.missing`.
    """
    paid = await paid_by(rt.table, job) if known is None else known
    rows = await Costs(rt.table).of(job.ref)
    by_actor = {actor: counts_of(row) for actor, row in sorted(rows.items())}
    counts = bill.sum_counts(by_actor.values())
    models = list(bill.call_lines(paid.usage, prices))
    stored, days = await stored_by(rt.table, job), kept_days(rt, job)
    aws = bill.aws_lines(counts, prices, region, task, stored, days)
    lines = [*models, *aws]
    model_usd, aws_usd = bill.total(models), bill.total(aws)
    return {
        "job": job.ref.job,
        "status": str(job.status),
        "chunks": job.chunks,
        "region": region,
        "prices_dated": str(prices.dated),
        "units_by": "AWS" if rt.cost.trusted else "AWS rules, measured on an emulator",
        "lines": [line_document(line) for line in lines],
        "total_usd": model_usd + aws_usd,
        "model_usd": None if models and not any_price(models) else model_usd,
        "aws_usd": aws_usd,
        "kept_days": round(days, 1),
        "chunk_usd": (model_usd + aws_usd) / max(1, job.chunks),
        "by_actor_usd": {
            actor: bill.total(bill.aws_lines(its, prices, region, task))
            for actor, its in by_actor.items()
        },
        "calls": call_costs(paid, prices),
        "lost_claims": paid.lost_claims,
        "retries": counts.get("retries", 0) / 1000,
        "notes": [
            *bill_notes(rt, job, counts, paid),
            *await budget_notes(rt, job, paid),
            *price_notes(lines),
        ],
    }


async def bill_for_page(
    rt: Runtime, job: Job, known: Paid | None = None
) -> Document | None:
    """Return the bill of a job; None: a price of its region is not known."""
    region = region_of(rt) if rt.cost.trusted else PRICED_IN
    try:
        return await job_bill(rt, job, load_prices(None), region, TaskSize(), known)
    except UsageError:
        return None


async def aws_usd_of(
    rt: Runtime, job: Job, chunks: Sequence[int], prices: Prices
) -> float | None:
    """Return what AWS charges for one chunk, by ended ones; None: a price is missing.

    That is the part of the workers, storage until deletion, and the deletion. The
    submit has created the rest already.
    """
    region = region_of(rt) if rt.cost.trusted else PRICED_IN
    rows = await Costs(rt.table).of(job.ref)
    counts = counts_of(rows.get("worker", {}))
    counts.pop("op__PutObject__bytes", None)
    each = (await stored_of(rt.table, job, chunks)).times(1 / len(chunks))
    try:
        worked = bill.total(bill.aws_lines(counts, prices, region, TaskSize()))
        kept = bill.total(
            bill.aws_lines({}, prices, region, TaskSize(), each, kept_days(rt, job))
        )
    except UsageError:
        return None
    return worked / len(chunks) + kept


async def deletion_terms(rt: Runtime, job: Job) -> str:
    """Return what a deletion at once takes, from its verb on.

    It also says what the retention takes, if that is less.
    """
    now, later = await stored_at_once(rt.table, job), await stored_by(rt.table, job)
    prices, region = load_prices(None), region_of(rt) if rt.cost.trusted else PRICED_IN

    def usd(stored: Stored) -> float | None:
        lines = bill.table_lines(replace(stored, bytes=0.0), 0.0, prices, region)
        try:
            return bill.total(lines)
        except UsageError:
            return None

    at_once, by_retention = usd(now), usd(later)
    said = f"takes {now.write_units:,.0f} write units"
    said += "" if at_once is None else f", about {at_once:.6f} USD"
    said += f", and {format_span(now.write_units / UNITS_PER_S)} at least"
    if at_once is None or by_retention is None or by_retention >= at_once:
        return said
    return f"{said}; its retention deletes it for {by_retention:.6f} USD"


def kept_days(rt: Runtime, job: Job) -> float:
    """Return how long the rows and objects of a job are billed: until its deletion.

    Without a retention nothing ends it; then it is a month.
    """
    if job.delete_after and job.finished_at:
        return (moment(job.delete_after) - moment(job.finished_at)) / DAY_S
    return rt.settings.job_retention_days or bill.MONTH_DAYS


def region_of(rt: Runtime) -> str:
    """Return the region of the deployment."""
    return rt.endpoint.region or str(rt.objects.client.meta.region_name)


def counts_of(row: Mapping[str, Any]) -> dict[str, int]:
    """Return the counts of an item, without its names."""
    return {name: n for name, n in row.items() if isinstance(n, int) and name != "v"}


def line_document(line: BillLine) -> Document:
    """Return a line as a document."""
    return {**asdict(line), "usd": line.usd}


def any_price(lines: Sequence[BillLine]) -> bool:
    """Return whether the price of any line is known."""
    return any(line.unit_price is not None for line in lines)


def call_costs(paid: Paid, prices: Prices) -> Document:
    """Return calls, tokens and cost of each kind of call."""
    kinds: tuple[tuple[str, CallUsage, UsageKind], ...] = (
        ("paid", paid.usage, "paid"),
        ("paid_twice", paid.twice, "paid"),
        ("possibly_paid", paid.usage, "possibly_paid"),
        ("paid_by_dead_chunks", paid.on_dead_chunks, "paid"),
        ("replayed", paid.usage, "replayed"),
        ("cached", paid.usage, "cached"),
        ("saved_by_tier", paid.usage, "saved_by_tier"),
    )
    return {name: call_cost(usage, kind, prices) for name, usage, kind in kinds}


def call_cost(usage: CallUsage, kind: UsageKind, prices: Prices) -> Document:
    """Return the sums of one kind of call; its cost leaves out unpriced models."""
    sums = usage.total(kind)
    del sums["nano_usd"]
    return {**sums, "usd": bill.total(bill.call_lines(usage, prices, kind))}


def bill_notes(
    rt: Runtime, job: Job, counts: Mapping[str, int], paid: Paid
) -> list[str]:
    """Return notes on what the bill leaves out."""
    notes = []
    if not job.status.ended:
        notes.append("the job has not ended: this is the cost recorded so far")
    elif not is_recorded(job.finished_at, rt.clock()):
        notes.append("the job just ended: workers record AWS's last counts within 35 s")
    if lost := counts.get("lost_writes", 0):
        notes.append(f"the counters of {lost} writes to AWS were lost")
    if paid.lost_claims:
        notes.append(
            f"claims lost with their worker: {paid.lost_claims};"
            " a call in flight then is possibly paid"
        )
    if paid.unrepeated:
        notes.append(
            f"chunks that have not repeated the stage of a lost claim:"
            f" {paid.unrepeated}; no figure has what it had in flight"
        )
    return notes


async def budget_notes(rt: Runtime, job: Job, paid: Paid) -> list[str]:
    """Return what the budget of a job counts for calls that no record has yet."""
    budget = await rt.budgets.of_job(job) if paid.unrepeated and job.budget else None
    lost = NOTHING if budget is None else budget.uncertain(micros(rt.clock()))
    if budget is None or not lost:
        return []
    return [f"the budget counts at most {budget.cap.text_of(lost)} for it"]


def is_recorded(finished_at: str, now: float) -> bool:
    """Return whether the workers have recorded the last counts of an ended job."""
    return now >= moment(finished_at) + QUIET_S + POLL_S


def price_notes(lines: Sequence[BillLine]) -> list[str]:
    """Return notes on the lines without a price."""
    return [f"{line.item}: {why_unpriced(line)}" for line in unpriced_lines(lines)]


def unpriced_lines(found: Sequence[BillLine]) -> list[BillLine]:
    """Return the lines that are in no sum, except calls whose tokens have a line."""
    with_tokens = {line.item for line in found if line.unit == "tokens"}
    return [
        line
        for line in found
        if line.unit_price is None and f"{line.item}, in" not in with_tokens
    ]


def why_unpriced(line: BillLine) -> str:
    """Return why a line is in no sum, and the option that adds it."""
    match line.unit:
        case "calls":
            return "no price; `usage` of the dependency reports tokens"
        case _:
            return "no price; `Model(price=…)` or --prices FILE sets it"
