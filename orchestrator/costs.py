"""The bill of a job, from what its processes wrote down and what its chunks say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from orchestrator.pricing import bill
from orchestrator.pricing.bill import BillLine, TaskSize
from orchestrator.pricing.table import Prices
from piecework import keys
from piecework.metering.keeping import LOOK_S, QUIET_S
from piecework.model import ChunkStatus, Job, moment
from piecework.runtime import Runtime
from piecework.store.census import all_chunks
from piecework.store.costs import Costs

Document = dict[str, Any]


@dataclass(slots=True)
class Spent:
    """What chunks say that they spent on calls."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def add(self, item: Mapping[str, Any]) -> None:
        """Add what a chunk's item says."""
        self.calls += int(item.get("calls", 0))
        self.tokens_in += int(item.get("tokens_in", 0))
        self.tokens_out += int(item.get("tokens_out", 0))


async def job_bill(
    rt: Runtime, job: Job, prices: Prices, region: str, task: TaskSize
) -> Document:
    """Return what a job has cost so far.

    Raises:
        UsageError: `config.price.missing`.
    """
    rows = await Costs(rt.table).of(job.ref)
    by_actor = {actor: counts_of(row) for actor, row in sorted(rows.items())}
    counts = bill.sum_counts(by_actor.values())
    found = bill.bill_lines(counts, prices, region, task)
    usd = bill.total(found)
    spent = await calls(rt, job, counts, found)
    return {
        "job": job.ref.job,
        "status": str(job.status),
        "chunks": job.chunks,
        "region": region,
        "prices_dated": str(prices.dated),
        "units_by": "AWS" if rt.cost.trusted else "the rules of AWS, on an emulator",
        "lines": [line_document(line) for line in found],
        "total_usd": usd,
        "chunk_usd": usd / max(1, job.chunks),
        "by_actor_usd": {
            actor: bill.total(bill.bill_lines(its, prices, region, task))
            for actor, its in by_actor.items()
        },
        "calls": spent,
        "retries": counts.get("retries", 0) / 1000,
        "notes": notes(rt, job, counts, found) + earlier_joins(job, spent),
    }


def counts_of(row: Mapping[str, Any]) -> dict[str, int]:
    """Return the counts of an item, without its names."""
    return {name: n for name, n in row.items() if isinstance(n, int) and name != "v"}


def line_document(line: BillLine) -> Document:
    """Return a line as a document."""
    return {**asdict(line), "usd": line.usd}


async def calls(
    rt: Runtime, job: Job, counts: Mapping[str, int], found: list[BillLine]
) -> Document:
    """Return what calls were paid for, and which of them came to nothing.

    What was paid and stands in no chunk of an ended job was paid by claims that did
    not end on record: their chunks were taken over, and so paid for twice.
    """
    settled, dead = Spent(), Spent()
    async for chunk in all_chunks(rt.table, job.ref, job.chunks):
        settled.add(chunk.item)
        if chunk.status is ChunkStatus.DEAD:
            dead.add(chunk.item)
    join = await rt.table.get(job.ref.pk, keys.chunk_sk(keys.JOIN_CHUNK))
    settled.add(join or {})
    paid = spent_on(counts, "paid")
    lost = beyond(paid, settled) if job.status.ended else Spent()
    usd = bill.total(line for line in found if line.group == "calls")
    parts = {"paid": paid, "paid_by_lost_claims": lost, "paid_by_dead_chunks": dead}
    spared = {how: spent_on(counts, how) for how in ("replayed", "cached")}
    return {
        name: {**asdict(spent), "usd": usd * share(spent, paid)}
        for name, spent in {**parts, **spared}.items()
    }


def beyond(paid: Spent, settled: Spent) -> Spent:
    """Return what was paid and is not in the chunks' records."""
    return Spent(
        max(0, paid.calls - settled.calls),
        max(0, paid.tokens_in - settled.tokens_in),
        max(0, paid.tokens_out - settled.tokens_out),
    )


def spent_on(counts: Mapping[str, int], answered: str) -> Spent:
    """Return what was counted of calls that were answered in one way."""
    found = bill.sum_counts(bill.call_counts(counts, answered).values())
    names = ("calls", "tokens_in", "tokens_out")
    return Spent(*(found.get(name, 0) for name in names))


def share(part: Spent, whole: Spent) -> float:
    """Return a part's share of the money: by tokens, or without any by calls."""
    tokens = whole.tokens_in + whole.tokens_out
    if tokens:
        return (part.tokens_in + part.tokens_out) / tokens
    return part.calls / whole.calls if whole.calls else 0.0


def notes(
    rt: Runtime, job: Job, counts: Mapping[str, int], found: list[BillLine]
) -> list[str]:
    """Say what is missing."""
    said = []
    if not job.status.ended:
        said.append("the job goes on: this is what was written down so far")
    elif rt.clock() - moment(str(job.item["finished_at"])) < QUIET_S + LOOK_S:
        said.append("it ended just now: workers write the last of it within 35 s")
    if lost := counts.get("lost_writes", 0):
        said.append(f"counts of {lost} writes were lost")
    return said + [f"{line.item}: {unpriced(line)}" for line in unknown(found)]


def earlier_joins(job: Job, spent: Document) -> list[str]:
    """Say what stands in a wrong place: of a join only its last run is on record."""
    if job.gen == 1 or not spent["paid_by_lost_claims"]["calls"]:
        return []
    return [f"what joins before generation {job.gen} paid is among that of lost claims"]


def unknown(found: list[BillLine]) -> list[BillLine]:
    """Return the lines that are in no sum; calls whose tokens are told are in none."""
    told = {line.item for line in found if line.unit == "tokens"}
    return [
        line
        for line in found
        if line.unit_price is None and f"{line.item}, in" not in told
    ]


def unpriced(line: BillLine) -> str:
    """Say why a line is in no sum, and what helps."""
    match line.unit:
        case "hours":
            return "--vcpu and --gb say what a worker runs on"
        case "calls":
            return "what they cost is not known; `usage` of the dependency tells"
        case _:
            return "no price; --prices FILE gives one"
