"""Draw bills for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console

from piecework_orchestrator.cli.output import View, facts
from piecework_orchestrator.cli.table import Column, Document, print_table
from piecework_orchestrator.cost.bill import BillLine, total
from piecework_orchestrator.cost.prices import Prices
from piecework_orchestrator.reading.times import count

#: Decimal digits of a job's cost, and of a month's.
FINE, COARSE = 6, 2

COLUMNS = [
    Column("GROUP", "group"),
    Column("ITEM", "item"),
    Column("COUNT", lambda line: format_amount(line["count"]), right=True),
    Column("UNIT", "unit", drops=1),
    Column("REQUESTS", lambda line: format_amount(line["requests"]), right=True),
    Column("USD", lambda line: format_money(line["usd"], FINE), right=True),
]
IDLE_COLUMNS = [
    *(column for column in COLUMNS[:4]),
    Column("USD A MONTH", lambda line: format_money(line["usd"], COARSE), right=True),
]


def bill_view(bill: Document) -> View:
    """Return a view of a bill: its lines, its sums and its notes."""

    def draw(console: Console) -> None:
        print_table(console, bill["lines"], COLUMNS)
        console.print()
        console.print(facts(summary(bill)))

    return draw


def summary(bill: Document) -> list[tuple[str, object]]:
    """Return the names and values below the lines."""
    per_thousand, chunks = bill["chunk_usd"] * 1000, count(bill["chunks"], "chunk")
    return [
        ("models", models_text(bill)),
        ("paid twice", usage_text(bill["calls"]["paid_twice"])),
        ("possibly paid", possibly_text(bill["calls"]["possibly_paid"])),
        ("dead chunks", usage_text(bill["calls"]["paid_by_dead_chunks"])),
        ("saved", saved_text(bill["calls"])),
        ("AWS", f"{format_money(bill['aws_usd'], FINE)} USD"),
        ("by process", actor_costs_text(bill["by_actor_usd"])),
        ("total", f"{format_money(bill['total_usd'], FINE)} USD for {chunks}"),
        ("per 1,000 chunks", f"{format_money(per_thousand, FINE)} USD"),
        ("children", children_text(bill)),
        (
            "retries",
            f"{format_amount(bill['retries'])} requests" if bill["retries"] else "",
        ),
        ("prices", f"{bill['region']}, as of {bill['prices_dated']}"),
        ("stored", f"for {count(round(bill['kept_days']), 'day')}"),
        ("units from", bill["units_by"]),
        ("notes", "\n".join(bill["notes"])),
    ]


def children_text(bill: Document) -> str:
    """Return the cost of the jobs below a job, which is not in its own lines."""
    if (below := bill["children"]) is None:
        return ""
    more, whole = below["total_usd"], bill["total_usd"] + below["total_usd"]
    text = (
        f"{count(below['jobs'], 'job')}, {format_money(more, FINE)} USD more"
        f" (models {format_money(below['model_usd'], FINE)});"
        f" with them {format_money(whole, FINE)} USD"
    )
    if below["possibly_paid"]:
        text += f"; possibly paid: at most {below['possibly_paid']} more calls"
    if below["unpriced"]:
        text += f"; {below['unpriced']} with calls of unknown price"
    return text


def actor_costs_text(sums: Document) -> str:
    """Return the cost of each kind of process."""
    return ", ".join(
        f"{actor} {format_money(usd, FINE)}" for actor, usd in sums.items()
    )


def models_text(bill: Document) -> str:
    """Return the cost of all paid calls; without any price, say so."""
    paid = bill["calls"]["paid"]
    if not paid["calls"]:
        return "no paid calls"
    if bill["model_usd"] is None:
        return f"no price is known; paid: {usage_text(paid)}"
    usd = format_money(bill["model_usd"], FINE)
    return f"{usd} USD; paid: {usage_text({**paid, 'usd': 0})}"


def possibly_text(part: Document) -> str:
    """Return the calls that a lost claim may have paid before, as an upper bound."""
    if not part["calls"]:
        return ""
    calls, _, known = usage_text(part).partition(" call")
    known = known.partition(", ")[2]
    more = "more call" if part["calls"] == 1 else "more calls"
    return f"at most {calls} {more}" + (f"; known of these: {known}" if known else "")


def usage_text(part: Document) -> str:
    """Return calls, tokens and cost as text; empty without calls."""
    if not part["calls"]:
        return ""
    tokens = part["tokens_in"] + part["tokens_out"]
    text = count(part["calls"], "call")
    if tokens:
        text += f", {part['tokens_in']:,} tokens in, {part['tokens_out']:,} out"
    return f"{text}, {format_money(part['usd'], FINE)} USD" if part["usd"] else text


def saved_text(calls: Document) -> str:
    """Return the calls that were answered without paying again, or for less."""
    parts = [
        ("from the journal", "replayed"),
        ("from other jobs", "cached"),
        ("by a cheaper tier", "saved_by_tier"),
    ]
    return "\n".join(
        f"{name}: {usage_text(calls[how])}"
        for name, how in parts
        if calls[how]["calls"]
    )


def idle_document(lines: Sequence[BillLine], prices: Prices, region: str) -> Document:
    """Return the price of a month without a job as a document."""
    return {
        "region": region,
        "prices_dated": str(prices.dated),
        "lines": [{**asdict(line), "usd": line.usd} for line in lines],
        "total_usd": total(lines),
    }


def idle_view(document: Document) -> View:
    """Return a view of the price of a month without a job."""

    def draw(console: Console) -> None:
        print_table(console, document["lines"], IDLE_COLUMNS)
        console.print()
        pairs = [
            ("total", f"{format_money(document['total_usd'], COARSE)} USD a month"),
            ("prices", f"{document['region']}, as of {document['prices_dated']}"),
        ]
        console.print(facts(pairs))

    return draw


def format_amount(count: float) -> str:
    """Return a count as text, without decimals if it is whole; empty for zero."""
    if not count:
        return ""
    if count == int(count):
        return f"{int(count):,}"
    return f"{count:,.3f}" if count >= 1 else f"{count:.6f}"


def format_money(usd: float | None, digits: int) -> str:
    """Return an amount of dollars as text; empty if it is unknown."""
    return "" if usd is None else f"{usd:,.{digits}f}"
