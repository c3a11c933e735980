"""Compute the bill of a job from its cost counters and from its chunks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from piecework.cost.persistence import POLL_S, QUIET_S
from piecework.domain import keys
from piecework.domain.model import Chunk, ChunkStatus, Job, moment
from piecework.runtime import Runtime
from piecework.store.completion import all_chunks, read_chunk
from piecework.store.costs import Costs
from piecework_orchestrator.cost import bill
from piecework_orchestrator.cost.bill import BillLine, TaskSize
from piecework_orchestrator.cost.prices import Prices

Document = dict[str, Any]


@dataclass(slots=True)
class CallUsage:
    """Calls and tokens, summed over chunks."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def add(self, chunk: Chunk) -> None:
        """Add the usage of a chunk."""
        tokens_in, tokens_out = chunk.tokens
        self.calls += chunk.calls
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out


async def job_bill(
    rt: Runtime, job: Job, prices: Prices, region: str, task: TaskSize
) -> Document:
    """Return the bill of a job so far.

    Raises:
        UsageError: `config.price.missing`.
    """
    rows = await Costs(rt.table).of(job.ref)
    by_actor = {actor: counts_of(row) for actor, row in sorted(rows.items())}
    counts = bill.sum_counts(by_actor.values())
    found = bill.bill_lines(counts, prices, region, task)
    usd = bill.total(found)
    usage = await call_costs(rt, job, counts, found)
    return {
        "job": job.ref.job,
        "status": str(job.status),
        "chunks": job.chunks,
        "region": region,
        "prices_dated": str(prices.dated),
        "units_by": "AWS" if rt.cost.trusted else "AWS rules, measured on an emulator",
        "lines": [line_document(line) for line in found],
        "total_usd": usd,
        "chunk_usd": usd / max(1, job.chunks),
        "by_actor_usd": {
            actor: bill.total(bill.bill_lines(its, prices, region, task))
            for actor, its in by_actor.items()
        },
        "calls": usage,
        "retries": counts.get("retries", 0) / 1000,
        "notes": bill_notes(rt, job, counts, found) + earlier_join_notes(job, usage),
    }


def region_of(rt: Runtime) -> str:
    """Return the region of the deployment."""
    return rt.endpoint.region or str(rt.objects.client.meta.region_name)


def counts_of(row: Mapping[str, Any]) -> dict[str, int]:
    """Return the counts of an item, without its names."""
    return {name: n for name, n in row.items() if isinstance(n, int) and name != "v"}


def line_document(line: BillLine) -> Document:
    """Return a line as a document."""
    return {**asdict(line), "usd": line.usd}


async def call_costs(
    rt: Runtime, job: Job, counts: Mapping[str, int], found: list[BillLine]
) -> Document:
    """Return the cost of calls, and the part that produced no result.

    In an ended job, paid calls that are on no chunk were made by claims that lost their
    lease: another worker took these chunks over and paid again.
    """
    on_chunks, dead = CallUsage(), CallUsage()
    async for chunk in all_chunks(rt.table, job.ref, job.chunks):
        on_chunks.add(chunk)
        if chunk.status is ChunkStatus.DEAD:
            dead.add(chunk)
    join = await read_chunk(rt.table, job.ref.chunk(keys.JOIN_CHUNK))
    if join is not None:
        on_chunks.add(join)
    paid = counted_usage(counts, "paid")
    lost = subtract_usage(paid, on_chunks) if job.status.ended else CallUsage()
    usd = bill.total(line for line in found if line.group == "calls")
    parts = {"paid": paid, "paid_by_lost_claims": lost, "paid_by_dead_chunks": dead}
    saved = {how: counted_usage(counts, how) for how in ("replayed", "cached")}
    return {
        name: {**asdict(usage), "usd": usd * cost_share(usage, paid)}
        for name, usage in {**parts, **saved}.items()
    }


def subtract_usage(paid: CallUsage, on_chunks: CallUsage) -> CallUsage:
    """Return the paid usage that is on no chunk."""
    return CallUsage(
        max(0, paid.calls - on_chunks.calls),
        max(0, paid.tokens_in - on_chunks.tokens_in),
        max(0, paid.tokens_out - on_chunks.tokens_out),
    )


def counted_usage(counts: Mapping[str, int], answered: str) -> CallUsage:
    """Return the counted usage of calls that were paid, replayed or cached."""
    found = bill.sum_counts(bill.call_counts(counts, answered).values())
    names = ("calls", "tokens_in", "tokens_out")
    return CallUsage(*(found.get(name, 0) for name in names))


def cost_share(part: CallUsage, whole: CallUsage) -> float:
    """Return a part's share of the cost: by tokens, or by calls if no tokens count."""
    tokens = whole.tokens_in + whole.tokens_out
    if tokens:
        return (part.tokens_in + part.tokens_out) / tokens
    return part.calls / whole.calls if whole.calls else 0.0


def bill_notes(
    rt: Runtime, job: Job, counts: Mapping[str, int], found: list[BillLine]
) -> list[str]:
    """Return notes on what the bill leaves out."""
    found_notes = []
    if not job.status.ended:
        found_notes.append("the job has not ended: this is the cost recorded so far")
    elif rt.clock() - moment(job.finished_at) < QUIET_S + POLL_S:
        found_notes.append(
            "the job just ended: workers record the last costs within 35 s"
        )
    if lost := counts.get("lost_writes", 0):
        found_notes.append(f"the counters of {lost} writes were lost")
    return found_notes + [
        f"{line.item}: {why_unpriced(line)}" for line in unpriced_lines(found)
    ]


def earlier_join_notes(job: Job, usage: Document) -> list[str]:
    """Return a note on earlier runs of the join, which are counted as lost claims.

    The record keeps only the last run of a join.
    """
    if job.gen == 1 or not usage["paid_by_lost_claims"]["calls"]:
        return []
    return [
        f"calls of the joins before generation {job.gen} are counted as lost claims"
    ]


def unpriced_lines(found: list[BillLine]) -> list[BillLine]:
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
        case "hours":
            return "no task size; --vcpu and --gb set it"
        case "calls":
            return "no price; `usage` of the dependency reports tokens"
        case _:
            return "no price; `Model(price=…)` or --prices FILE sets it"
