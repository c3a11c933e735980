"""Draw a chunk, and a list of chunks, for people."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from piecework.domain.outcome import ANSWER, BATCH, CHILD_JOB, PAUSE, TIMER
from piecework.domain.pause import Pause
from piecework_orchestrator.cli.output import (
    ERROR_HISTORY_COLUMNS,
    View,
    facts,
    payload_text,
    section,
)
from piecework_orchestrator.cli.table import Column, Document, clean
from piecework_orchestrator.cli.views.jobs import stop_lines
from piecework_orchestrator.reading.times import epoch, format_ago, format_span


def chunk_columns(now: float) -> list[Column]:
    """Return the columns of `chunks list`."""
    return [
        Column("CHUNK", "chunk", right=True),
        Column("STATUS", status_cell),
        Column("STAGE", "stage", drops=2),
        Column("ATTEMPTS", lambda chunk: chunk.get("attempts", 0), right=True, drops=4),
        Column("CALLS", "calls", right=True, drops=5),
        Column("CHANGED", lambda chunk: format_ago(last_change(chunk), now), drops=3),
        Column("ERROR", lambda chunk: error_cell(chunk, now), folds=True),
        Column("LABEL", "label", shrinks=True, drops=1),
    ]


def status_cell(chunk: Document) -> str:
    """Return the status of a chunk, and the reason of its wait."""
    wait = chunk.get("wait")
    return f"{chunk['status']} ({wait['text']})" if wait else str(chunk["status"])


def error_cell(chunk: Document, now: float) -> str:
    """Return a chunk's error code, and the dependency that blocks it, if any."""
    code = str(chunk.get("error_code", ""))
    if chunk["status"] != "WAITING" or "blocked_on" not in chunk:
        return code
    if chunk["blocked_on"] in {TIMER, ANSWER, BATCH, CHILD_JOB}:
        return code
    if chunk["blocked_on"] == PAUSE:
        return "ended by a pause"
    left = max(0.0, epoch(chunk["retry_at"]) - now)
    return f"{code}: blocked on {chunk['blocked_on']}, retry in {format_span(left)}"


def last_change(chunk: Document) -> Any:
    """Return the time of the last change that is on a chunk's item."""
    return chunk.get("ended_at") or chunk.get("started_at")


def chunk_view(chunk: Document, now: float) -> View:
    """Return a view of a chunk with its stages, effects, errors and compensations."""
    listed = {"stages", "effects", "errors", "compensated", "wait", "history"}
    listed |= {"job_paused", "result", "result_excerpt", "value", "stopped"}
    moments = {"created_at", "claimed_at", "started_at", "ended_at"}
    moments |= {"claim_expires_at", "retry_at", "redispatch_at"}

    def draw(console: Console) -> None:
        values = {**chunk, "status": status_cell(chunk)}
        shown = [
            (name, f"{value}  ({format_ago(value, now)})" if name in moments else value)
            for name, value in values.items()
            if name not in listed
        ]
        if pause := chunk.get("job_paused"):
            why = f"{pause['code']}: {Pause(**pause).why}  (by {pause['actor']})"
            shown.append(("job paused", why))
        console.print(facts(shown))
        section(console, "completed stages", chunk["stages"], STAGE_COLUMNS)
        section(console, "ended claims", chunk.get("history", []), HISTORY_COLUMNS)
        section(console, "effects", chunk["effects"], EFFECT_COLUMNS)
        section(console, "errors", chunk["errors"], ERROR_HISTORY_COLUMNS)
        section(console, "compensations", chunk["compensated"], COMPENSATION_COLUMNS)
        if "stopped" in chunk:
            console.print("\nearlier and newer code", style="bold")
            console.print(clean("\n".join(stop_lines(chunk["stopped"])[1:])))
        if "result" in chunk:
            console.print("\nresult", style="bold")
            console.print(payload_text(chunk["result"]))
        if "result_excerpt" in chunk:
            size = chunk["result_bytes"]
            console.print(f"\nresult, the beginning of {size:,} bytes", style="bold")
            console.print(clean(chunk["result_excerpt"]))

    return draw


STAGE_COLUMNS = [
    Column("STAGE", "stage"),
    Column("STARTED", "started_at", drops=1),
    Column("FINISHED", "finished_at"),
    Column("WORKER", "worker", shrinks=True, drops=2),
    Column("ATTEMPT", "attempt", right=True, drops=3),
    Column("GEN", "gen", right=True, detail=True),
    Column("FENCE", "fence", right=True, detail=True),
    Column("CODE", "code_version", shrinks=True, drops=1),
    Column("RESULT", lambda row: "of the chunk" if row["is_result"] else "", drops=4),
]
HISTORY_COLUMNS = [
    Column("ATTEMPT", "attempt", right=True),
    Column("WORKER", "worker", shrinks=True, drops=3),
    Column("FROM", "from", drops=2),
    Column("TO", "to"),
    Column("END", "end"),
    Column("CODE", "code"),
    Column("WAITED UNTIL", "until", drops=1),
]
EFFECT_COLUMNS = [
    Column("STAGE", "stage"),
    Column("STATE", "state"),
    Column("KIND", "effect", drops=1),
    Column("STARTED", "started_at", drops=2),
    Column("KEY", lambda row: str(row["effect_key"])[:16]),
]
COMPENSATION_COLUMNS = [
    Column("STAGE", "stage"),
    Column("AT", "at"),
    Column("GENERATION", "gen", right=True),
    Column("STATE", lambda row: "COMPENSATED" if row["ok"] else "FAILED"),
]
