"""Draw the calls of a chunk for people."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console

from piecework_orchestrator.cli.output import View, facts
from piecework_orchestrator.cli.table import Column, Document, clean
from piecework_orchestrator.reading.times import format_span

#: Characters of arguments or of an answer that a terminal shows.
SHOWN = 8_000


def end_cell(call: Document) -> str:
    """Return how a call ended, and the claims that have replayed its answer."""
    by = call["replayed_by"]
    doubt = " (in doubt)" if call["effect"] == "UNKNOWN" else ""
    replayed = f", replayed by claim {', '.join(map(str, by))}" if by else ""
    return f"{call['end']}{doubt}{replayed if call['end'] != 'replayed' else ''}"


def tries_cell(call: Document) -> str:
    """Return the codes of the attempts that failed."""
    return ", ".join(each["code"] for each in call["failed_attempts"])


def money_cell(call: Document) -> str:
    """Return the price of a call with two significant digits; empty: unknown."""
    return f"{call['usd']:.2g}" if call["usd"] else ""


def tokens_cell(call: Document) -> str:
    """Return the tokens in and out; empty: it used none."""
    used = call["tokens_in"], call["tokens_out"]
    return f"{used[0]:,} + {used[1]:,}" if any(used) else ""


CALL_COLUMNS = [
    Column("CALL", "call", right=True),
    Column("STAGE", "stage", drops=4),
    Column("DEPENDENCY", "dependency"),
    Column("FUNCTION", "function", shrinks=True, drops=5),
    Column("END", end_cell),
    Column("TOOK", lambda call: format_span(call["took_s"]), right=True),
    Column("WAITED", lambda call: format_span(call["waited_s"]), right=True, drops=6),
    Column("FAILED ATTEMPTS", tries_cell, folds=True, drops=2),
    Column("TOKENS", tokens_cell, right=True, drops=3),
    Column("USD", money_cell, right=True, drops=3),
    Column("CLAIM", "claim", right=True, detail=True),
    Column("CODE", "code_version", shrinks=True, drops=7),
    Column("KEY", "key", detail=True),
]


def call_view(call: Document) -> View:
    """Return a view of a call: how it went, its arguments, and its answers."""
    hidden = {"arguments", "answer", "refused", "missing", "failed_attempts"}
    hidden |= {"arguments_kept", "message", "replayed_by"}

    def draw(console: Console) -> None:
        shown = [
            (n, v) for n, v in call.items() if n not in hidden and v not in ("", 0)
        ]
        console.print(facts([*shown, ("end", end_cell(call))]))
        for each in call["failed_attempts"]:
            wait = f", then a wait of {format_span(each['delay_s'])}"
            after = wait if each["delay_s"] else ""
            console.print(f"failed attempt: {each['code']}{after}", markup=False)
        if call["message"]:
            console.print(clean(call["message"]), markup=False)
        text_section(console, "arguments", call["arguments"])
        for each in call["refused"]:
            text_section(console, f"answer refused: {each['code']}", each["answer"])
            for place in each["places"]:
                at = place["at"] or "the answer"
                console.print(clean(f"  {at}: {place['message']}"), markup=False)
        text_section(console, "answer", call["answer"])
        if call["missing"]:
            console.print(f"\n{call['missing']}", markup=False)

    return draw


def text_section(console: Console, title: str, value: Any) -> None:
    """Print arguments or an answer below its title; nothing if there is none."""
    if value is None:
        return
    text = (
        value
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, indent=2)
    )
    console.print(f"\n{title}", style="bold", markup=False)
    console.print(clean(text[:SHOWN]), markup=False, highlight=False, soft_wrap=True)
    if len(text) > SHOWN:
        more = f"… {len(text) - SHOWN:,} characters more; -o json has them all"
        console.print(more, markup=False)
