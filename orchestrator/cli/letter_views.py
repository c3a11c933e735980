"""How dead letters look to a person."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console

from orchestrator.cli.letters import Letter, chunk_word
from orchestrator.cli.output import Column, Document, facts
from orchestrator.cli.times import ago
from orchestrator.cli.views import TRAIL_COLUMNS, View, pretty, section
from piecework.store.dead_letters import OPEN, REDRIVEN

LINE = (
    "job",
    "label",
    "letter_state",
    "error_code",
    "error_class",
    "error",
    "fingerprint",
    "stage",
    "attempts",
    "compensation",
    "stranded",
    "pipeline",
    "owner",
    "runbook",
    "gen",
    "replay_of",
    "origin_gen",
    "patched_as",
    "died_at",
    "redriven_at",
    "redriven_by",
    "redrive_reason",
    "redriven_as",
    "patch",
    "discarded_at",
    "discarded_by",
    "discard_reason",
)


def letter_line(letter: Letter) -> Letter:
    """Return what a list says of a letter."""
    return {"chunk": chunk_word(letter)} | {
        name: letter[name] for name in LINE if letter.get(name) is not None
    }


def letter_columns(now: float, *, all_: bool) -> list[Column]:
    """Return the columns of `dlq list`."""
    state = [Column("STATE", "letter_state")] if all_ else []
    return [
        Column("JOB", "job"),
        Column("CHUNK", "chunk", right=True),
        *state,
        Column("FINGERPRINT", "fingerprint"),
        Column("CODE", "error_code"),
        Column("STAGE", "stage"),
        Column("TRIES", "attempts", right=True),
        Column("DIED", lambda letter: ago(letter["died_at"], now)),
        Column("LABEL", "label", shrinks=True),
    ]


def letter_view(letter: Letter, now: float) -> View:
    """Draw the story of a dead chunk."""
    stranded = letter.get("stranded")

    def draw(console: Console) -> None:
        console.print(
            facts(
                [
                    ("chunk", f"{letter['job']} {chunk_word(letter)}"),
                    ("label", letter.get("label")),
                    ("state", state(letter, now)),
                    ("error", f"{letter['error_code']}  ({letter['error_class']})"),
                    ("", letter.get("error")),
                    ("means", meaning(letter)),
                    ("stage", letter.get("stage")),
                    ("died", f"{ago(letter['died_at'], now)}, {counters(letter)}"),
                    ("compensation", letter.get("compensation")),
                    ("stranded", ", ".join(stranded) if stranded else ""),
                    ("fingerprint", letter["fingerprint"]),
                    ("origin", origin(letter, now)),
                    ("patched", patched(letter)),
                    ("owner", letter.get("owner")),
                    ("runbook", letter.get("runbook")),
                ]
            )
        )
        if letter["deaths"] > 1 or letter["letter_state"] != OPEN:
            section(console, "lineage", letter["lineage"], LINEAGE_COLUMNS)
        section(console, "trail", letter["trail"], TRAIL_COLUMNS)
        if letter.get("payload") is not None:
            console.print("\npayload", style="bold")
            console.print(readable(letter["payload"]))
        elif "payload_error" in letter:
            console.print(f"\npayload: {letter['payload_error']}")
        console.print(facts([("\nnext", f"\n{next_step(letter)}")]))

    return draw


def state(letter: Letter, now: float) -> str:
    """Return whether somebody has dealt with a letter."""
    row = letter["lineage"][-1]
    if letter["letter_state"] == OPEN:
        return OPEN
    found, chunk = str(letter["letter_state"]), letter["chunk_now"]
    said = f"{found} {ago(row['at'], now)} by {row['by']}: {row['why']}"
    if found == REDRIVEN and chunk:
        said += f"; now {chunk['status']} in generation {chunk['gen']}"
    return said


def then(row: Document) -> str:
    """Return what followed on a death."""
    if row["letter_state"] == OPEN:
        return OPEN
    said = f"{row['letter_state']} by {row['by']}"
    if "redriven_as" in row:
        said += f" as generation {row['redriven_as']}"
    return said + (", patched" if "patch" in row else "")


def origin(letter: Letter, now: float) -> str:
    """Return the first death of a chunk that died more than once."""
    first = letter["lineage"][0]
    if letter["deaths"] == 1:
        return ""
    return (
        f"died in generation {first['gen']}, {ago(first['died_at'], now)}, "
        f"of {first['error_code']}; {letter['deaths']} deaths in all"
    )


def patched(letter: Letter) -> str:
    """Return since when the payload is not the one that was submitted, and how."""
    changes = [row for row in letter["lineage"] if "patch" in row]
    if not changes:
        return ""
    last = changes[-1]
    return f"since generation {last['redriven_as']}, by {last['by']}: {last['patch']}"


def meaning(letter: Letter) -> str:
    """Return what the registry says of the code; a user's own is not in it."""
    from piecework.codes import REGISTRY

    found = REGISTRY.get(str(letter["error_code"]))
    return found.cause if found else ""


def counters(letter: Letter) -> str:
    """Return how often the chunk was tried."""
    names = ("attempts", "claims", "deliveries")
    return ", ".join(f"{name} {letter[name]}" for name in names if name in letter)


def readable(payload: Any) -> str:
    """Return a payload with its texts as text: line breaks are not escaped."""
    from orchestrator.cli.output import clean

    if not isinstance(payload, dict):
        return clean(pretty(payload))
    lines = []
    for name, value in payload.items():
        if isinstance(value, str) and "\n" in value:
            lines += [f"{name}:", *(f"  {line}" for line in value.splitlines())]
        elif isinstance(value, str):
            lines.append(f"{name}: {value}")
        else:
            lines.append(f"{name}: {json.dumps(value, ensure_ascii=False)}")
    return clean("\n".join(lines))


def next_step(letter: Letter) -> str:
    """Return what to type next."""
    job, chunk = letter["job"], chunk_word(letter)
    if letter["letter_state"] != OPEN:
        return f"piecework chunks show {job} {chunk}"
    only = "" if chunk == "join" else f" --chunk {chunk}"
    return (
        f"fix the cause, then "
        f"piecework dlq redrive --job {job}{only} --reason 'what was fixed'"
    )


LINEAGE_COLUMNS = [
    Column("GEN", "gen", right=True),
    Column("DIED", "died_at"),
    Column("OF", "error_code"),
    Column("FINGERPRINT", "fingerprint"),
    Column("THEN", then),
    Column("WHY", "why", folds=True),
]
