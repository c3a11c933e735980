"""How bills look to a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console

from orchestrator.cli.output import Column, Document, facts, print_table
from orchestrator.cli.views import View
from orchestrator.pricing.bill import BillLine, total
from orchestrator.pricing.table import Prices

#: Digits that a price needs to say anything, and a sum.
FINE, COARSE = 6, 2

COLUMNS = [
    Column("FOR", "group"),
    Column("ITEM", "item"),
    Column("COUNT", lambda line: amount(line["count"]), right=True),
    Column("OF", "unit"),
    Column("REQUESTS", lambda line: amount(line["requests"]), right=True),
    Column("USD", lambda line: money(line["usd"], FINE), right=True),
]
IDLE_COLUMNS = [
    *(column for column in COLUMNS[:4]),
    Column("USD A MONTH", lambda line: money(line["usd"], COARSE), right=True),
]


def bill_view(bill: Document) -> View:
    """Draw the bill of a job: its lines, its sums, and what is missing."""

    def draw(console: Console) -> None:
        print_table(console, bill["lines"], COLUMNS)
        console.print()
        console.print(facts(sums(bill)))

    return draw


def sums(bill: Document) -> list[tuple[str, object]]:
    """Return what stands below the lines."""
    per_thousand = bill["chunk_usd"] * 1000
    return [
        ("total", f"{money(bill['total_usd'], FINE)} USD, of {bill['chunks']} chunks"),
        ("per 1,000 chunks", f"{money(per_thousand, FINE)} USD"),
        ("by", by_actor(bill["by_actor_usd"])),
        ("calls paid", spent(bill["calls"]["paid"])),
        ("for nothing", for_nothing(bill["calls"])),
        ("spared", spared(bill["calls"])),
        ("retries", f"{amount(bill['retries'])} requests" if bill["retries"] else ""),
        ("prices", f"{bill['region']}, of {bill['prices_dated']}"),
        ("units by", bill["units_by"]),
        ("but", "\n".join(bill["notes"])),
    ]


def by_actor(sums: Document) -> str:
    """Return who spent how much."""
    return ", ".join(f"{actor} {money(usd, FINE)}" for actor, usd in sums.items())


def spent(part: Document) -> str:
    """Return what was spent on calls; nothing, for no call."""
    if not part["calls"]:
        return ""
    tokens = part["tokens_in"] + part["tokens_out"]
    said = f"{part['calls']:,}"
    if tokens:
        said += f", {part['tokens_in']:,} tokens in, {part['tokens_out']:,} out"
    return f"{said}, {money(part['usd'], FINE)} USD" if part["usd"] else said


def for_nothing(calls: Document) -> str:
    """Return what was paid by claims that were lost, and by chunks that died."""
    parts = [
        ("paid twice, by claims that were lost", calls["paid_by_lost_claims"]),
        ("in chunks that died", calls["paid_by_dead_chunks"]),
    ]
    return "\n".join(f"{name}: {spent(part)}" for name, part in parts if part["calls"])


def spared(calls: Document) -> str:
    """Return what was not paid again."""
    parts = [("by the journal", "replayed"), ("by other jobs", "cached")]
    return "\n".join(
        f"{name}: {spent(calls[how])}" for name, how in parts if calls[how]["calls"]
    )


def idle_document(lines: Sequence[BillLine], prices: Prices, region: str) -> Document:
    """Return the price of an idle month as a document."""
    return {
        "region": region,
        "prices_dated": str(prices.dated),
        "lines": [{**asdict(line), "usd": line.usd} for line in lines],
        "total_usd": total(lines),
    }


def idle_view(document: Document) -> View:
    """Draw the price of an idle month."""

    def draw(console: Console) -> None:
        print_table(console, document["lines"], IDLE_COLUMNS)
        console.print()
        pairs = [
            ("total", f"{money(document['total_usd'], COARSE)} USD a month"),
            ("prices", f"{document['region']}, of {document['prices_dated']}"),
        ]
        console.print(facts(pairs))

    return draw


def amount(count: float) -> str:
    """Return a count: whole, if it is; nothing of none."""
    if not count:
        return ""
    if count == int(count):
        return f"{int(count):,}"
    return f"{count:,.3f}" if count >= 1 else f"{count:.6f}"


def money(usd: float | None, digits: int) -> str:
    """Return a sum of dollars; nothing, where there is none."""
    return "" if usd is None else f"{usd:,.{digits}f}"
