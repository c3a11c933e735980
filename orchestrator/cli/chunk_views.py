"""How a chunk looks to a person, and a list of them."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from orchestrator.cli.output import Column, Document, facts
from orchestrator.cli.times import ago, at, span
from orchestrator.cli.views import TRAIL_COLUMNS, View, section


def chunk_columns(now: float) -> list[Column]:
    """Return the columns of `chunks list`."""
    return [
        Column("CHUNK", "chunk", right=True),
        Column("STATUS", "status"),
        Column("STAGE", "stage"),
        Column("TRIES", lambda chunk: chunk.get("attempts", 0), right=True),
        Column("CALLS", "calls", right=True),
        Column("WHEN", lambda chunk: ago(last_moment(chunk), now)),
        Column("ERROR", lambda chunk: trouble(chunk, now)),
        Column("LABEL", "label", shrinks=True),
    ]


def trouble(chunk: Document, now: float) -> str:
    """Return a chunk's error, and for which dependency it waits how long."""
    code = str(chunk.get("error_code", ""))
    if chunk["status"] != "WAITING" or "waits_for" not in chunk:
        return code
    left = max(0.0, at(chunk["retry_at"]) - now)
    return f"{code}: waits for {chunk['waits_for']}, {span(left)} more"


def last_moment(chunk: Document) -> Any:
    """Return when a chunk last changed, as far as its item tells."""
    return chunk.get("settled_at") or chunk.get("started_at")


def chunk_view(chunk: Document, now: float) -> View:
    """Draw a chunk with its stages, effects and errors."""
    listed = ("stages", "effects", "errors", "undone")
    moments = {"created_at", "claimed_at", "started_at", "settled_at"}
    moments |= {"claim_expires_at", "retry_at", "due_at"}

    def draw(console: Console) -> None:
        shown = [
            (name, f"{value}  ({ago(value, now)})" if name in moments else value)
            for name, value in chunk.items()
            if name not in listed
        ]
        console.print(facts(shown))
        section(console, "stages done", chunk["stages"], STAGE_COLUMNS)
        section(console, "effects", chunk["effects"], EFFECT_COLUMNS)
        section(console, "errors", chunk["errors"], TRAIL_COLUMNS)
        section(console, "undone", chunk["undone"], UNDONE_COLUMNS)

    return draw


STAGE_COLUMNS = [
    Column("STAGE", "stage"),
    Column("FINISHED", "finished_at"),
    Column("GEN", "gen", right=True),
    Column("CLAIM", "fence", right=True),
    Column("RESULT", lambda row: "the chunk's result" if row["is_result"] else ""),
]
EFFECT_COLUMNS = [
    Column("STAGE", "stage"),
    Column("STATE", "effect_state"),
    Column("KIND", "effect"),
    Column("BEGUN", "begun_at"),
    Column("KEY", lambda row: str(row["effect_key"])[:16]),
]
UNDONE_COLUMNS = [
    Column("STAGE", "stage"),
    Column("AT", "at"),
    Column("STATE", lambda row: "UNDONE" if row["ok"] else "FAILED"),
]
