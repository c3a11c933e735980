"""Draw dead letters for people."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.outcome import CompensationResult
from piecework.errors.codes import REGISTRY
from piecework.explain.situation import EFFECT_IN_DOUBT
from piecework.store.compensations import UNCOMPENSATED
from piecework.store.dead_letters import OPEN, REDRIVEN
from piecework_orchestrator.cli.output import (
    ERROR_HISTORY_COLUMNS,
    View,
    facts,
    payload_text,
    section,
)
from piecework_orchestrator.cli.table import Column, Document, clean
from piecework_orchestrator.dead_letters.letters import chunk_name
from piecework_orchestrator.reading.selection import FINGERPRINT_DIGITS
from piecework_orchestrator.reading.times import format_ago, format_between

LINE_ATTRIBUTES = (
    "job",
    "label",
    "state",
    "error_code",
    "error_class",
    "error",
    "cause",
    "recovery",
    "raised",
    "fingerprint",
    "stage",
    "attempts",
    "compensation",
    "uncompensated_stages",
    "stages_without_effect",
    "compensation_errors",
    "resolved_stages",
    "compensation_resolved_at",
    "compensation_resolved_by",
    "compensation_resolve_reason",
    "code_version",
    "pipeline",
    "owner",
    "runbook",
    "gen",
    "replay_of",
    "origin_gen",
    "patched_in_gen",
    "dead_lettered_at",
    "redriven_at",
    "redriven_by",
    "redrive_reason",
    "redriven_gen",
    "patch",
    "discarded_at",
    "discarded_by",
    "discard_reason",
)


def letter_line(letter: DeadLetterRow) -> dict[str, Any]:
    """Return the facts of a dead letter that a list shows."""
    facts = letter.facts
    return {"chunk": chunk_name(letter.chunk)} | {
        name: facts[name] for name in LINE_ATTRIBUTES if facts.get(name) is not None
    }


def short_fingerprint(document: Document) -> str:
    """Return the digits of a fingerprint that options accept for the whole."""
    return str(document["fingerprint"])[:FINGERPRINT_DIGITS]


def letter_columns(now: float, *, all_: bool) -> list[Column]:
    """Return the columns of `dlq list`."""
    state = [Column("STATE", "state")] if all_ else []
    return [
        Column("JOB", "job"),
        Column("CHUNK", "chunk", right=True),
        *state,
        Column("CAUSE", short_fingerprint),
        Column("CODE", "error_code"),
        Column("STAGE", "stage", drops=3),
        Column("ATTEMPTS", "attempts", right=True, drops=4),
        Column("DIED", lambda row: format_ago(row["dead_lettered_at"], now), drops=2),
        Column("LABEL", "label", shrinks=True, drops=1),
    ]


def compensation_columns() -> list[Column]:
    """Return the columns of `dlq compensate --dry-run`."""
    return [
        Column("JOB", "job"),
        Column("CHUNK", "chunk", right=True),
        Column("CODE", "error_code", drops=1),
        Column("NOT COMPENSATED", uncompensated_text),
        Column("BECAUSE", compensation_errors_text, shrinks=True),
    ]


def uncompensated_text(letter: Document) -> str:
    """Return the stages whose effects remain; a lost worker could not tell them."""
    return ", ".join(letter.get("uncompensated_stages") or ()) or "unknown"


def without_effect_text(letter: Document) -> str:
    """Return the stages that had nothing to compensate."""
    names = ", ".join(letter.get("stages_without_effect") or ())
    return names and f"{names}: nothing happened, so nothing was compensated"


def letter_view(letter: Document, now: float) -> View:
    """Return a view of a dead letter."""
    died = format_ago(letter["dead_lettered_at"], now)
    uncompensated = letter.get("uncompensated_stages")
    number = chunk_name(letter["chunk"])

    def draw(console: Console) -> None:
        console.print(
            facts(
                [
                    ("chunk", f"{letter['job']} {chunk_name(letter['chunk'])}"),
                    ("label", letter.get("label")),
                    ("state", state_text(letter, now)),
                    ("error", f"{letter['error_code']}  ({class_text(letter)})"),
                    ("", letter.get("error")),
                    ("raised", letter.get("raised")),
                    ("means", cause_text(letter)),
                    ("recovery", letter.get("recovery")),
                    ("stage", letter.get("stage")),
                    ("died", f"{died}, {counters_text(letter)}"),
                    ("compensation", compensation_text(letter, now)),
                    ("not compensated", ", ".join(uncompensated or ())),
                    ("because", compensation_errors_text(letter)),
                    ("no effect", without_effect_text(letter)),
                    ("fingerprint", letter["fingerprint"]),
                    ("code", letter.get("code_version")),
                    ("origin", origin_text(letter, now)),
                    ("patched", patch_text(letter)),
                    ("owner", letter.get("owner")),
                    ("runbook", letter.get("runbook")),
                    ("calls", f"piecework chunks calls {letter['job']} {number}"),
                ]
            )
        )
        if letter.get("ladder"):
            section(console, "ladder", ladder_rows(letter), LADDER_COLUMNS)
        if letter["deaths"] > 1 or letter["state"] != OPEN:
            section(console, "lineage", letter["lineage"], LINEAGE_COLUMNS)
        section(
            console, "error history", letter["error_history"], ERROR_HISTORY_COLUMNS
        )
        *_, last = letter["error_history"] or [{}]
        if last.get("location"):
            console.print("\ntraceback", style="bold")
            console.print(clean(last["traceback"]))
        if letter.get("payload") is not None:
            console.print("\npayload", style="bold")
            console.print(payload_text(letter["payload"]))
        elif "payload_error" in letter:
            console.print(f"\npayload: {letter['payload_error']}")
        console.print(facts([("\nnext", f"\n{next_command(letter)}")]))

    return draw


def compensation_text(letter: Document, now: float) -> str:
    """Return the result of the compensation, and the operator who resolved it."""
    text = str(letter.get("compensation", ""))
    if "compensation_resolved_at" not in letter:
        return text
    ago = format_ago(letter["compensation_resolved_at"], now)
    by, why = letter["compensation_resolved_by"], letter["compensation_resolve_reason"]
    return f"{text} {ago} by {by}: {why}"


def ladder_rows(letter: Document) -> list[Document]:
    """Return what happened to the chunk, and what follows while the letter is open.

    `after`: since the attempt before; of a rung, since the dead letter.
    """
    died, before = letter["dead_lettered_at"], ""
    rows: list[Document] = []
    last_errors = {error.get("attempt"): error for error in letter["error_history"]}
    for attempt, error in last_errors.items():
        name, at = f"attempt {attempt}", error["at"]
        after, why = format_between(before, at), error["code"]
        rows.append(
            {"rung": name, "state": "failed", "at": at, "after": after, "why": why}
        )
        before = at
    rows.append({"rung": "dead letter", "state": "reached", "at": died})
    for position, rung in enumerate(letter["ladder"]):
        due, at = rung["due_at"], rung.get("reached_at", "")
        if at:
            state = "abandoned" if rung.get("error") else "reached"
        elif letter["state"] != OPEN:
            state = "not reached"
        else:
            state = "next" if position == letter["rung"] else "later"
        facts = {"rung": rung["rung"], "state": state, "at": at or due}
        facts["after"] = format_between(died, due) if due > died else "at once"
        rows.append({**facts, "why": rung.get("error", "")})
    return rows


LADDER_COLUMNS = [
    Column("RUNG", "rung"),
    Column("STATE", "state"),
    Column("AFTER", "after"),
    Column("AT", lambda row: f"{row['at'][:19]}Z"),
    Column("WHY", "why", folds=True),
]


def compensation_errors_text(letter: Document) -> str:
    """Return why the effects of each stage remain."""
    errors = letter.get("compensation_errors", ())
    failed = {error["stage"] for error in errors}
    left = letter.get("uncompensated_stages") or ()
    lines = [f"{e['stage']}: {e['code']}: {e['message']}" for e in errors]
    abandoned = letter.get("compensation") == CompensationResult.ABANDONED
    why = (
        "nothing has compensated it to the end"
        if abandoned
        else "it has no compensation"
    )
    if not abandoned and letter.get("code_version"):
        why += f" in code version {letter['code_version']}"
    lines += [f"{name}: {why}" for name in left if name not in failed]
    return "\n".join(lines)


def state_text(letter: Document, now: float) -> str:
    """Return the state of a dead letter, and how it was closed."""
    row = letter["lineage"][-1]
    if letter["state"] == OPEN:
        return OPEN
    found, chunk = str(letter["state"]), letter["chunk_now"]
    text = f"{found} {format_ago(row['at'], now)} by {row['by']}: {row['why']}"
    if found == REDRIVEN and chunk:
        text += f"; now {chunk['status']} in generation {chunk['gen']}"
    return text


def closed_as(row: Document) -> str:
    """Return how a death was closed."""
    if row["state"] == OPEN:
        return OPEN
    text = f"{row['state']} by {row['by']}"
    if "redriven_gen" in row:
        text += f" as generation {row['redriven_gen']}"
    return text + (", patched" if "patch" in row else "")


def origin_text(letter: Document, now: float) -> str:
    """Return the first death of a chunk that died several times."""
    first = letter["lineage"][0]
    if letter["deaths"] == 1:
        return ""
    ago = format_ago(first["dead_lettered_at"], now)
    return (
        f"died in generation {first['gen']}, {ago}, "
        f"of {first['error_code']}; {letter['deaths']} deaths in all"
    )


def patch_text(letter: Document) -> str:
    """Return the last patch of the payload, its generation and its actor."""
    changes = [row for row in letter["lineage"] if "patch" in row]
    if not changes:
        return ""
    last = changes[-1]
    return f"since generation {last['redriven_gen']}, by {last['by']}: {last['patch']}"


def class_text(letter: Document) -> str:
    """Return the class that decided; a stage may raise a code with another class."""
    own, found = letter["error_class"], REGISTRY.get(str(letter["error_code"]))
    if found is None or found.error_class == own:
        return str(own)
    return f"{own}, as the stage raised it; the code itself is {found.error_class}"


def cause_text(letter: Document) -> str:
    """Return the cause of the code; the dead letter has that of a pipeline's own."""
    found = REGISTRY.get(str(letter["error_code"]))
    return found.cause if found else str(letter.get("cause", ""))


def counters_text(letter: Document) -> str:
    """Return the counters of the chunk as text."""
    names = ("attempts", "claims", "receive_count")
    return ", ".join(f"{name} {letter[name]}" for name in names if name in letter)


def next_command(letter: Document) -> str:
    """Return the next command."""
    job, chunk = letter["job"], chunk_name(letter["chunk"])
    if letter["state"] != OPEN:
        return f"piecework chunks show {job} {chunk}"
    only = "" if chunk == "join" else f" --chunk {chunk}"
    if letter["error_code"] == EFFECT_IN_DOUBT:
        redrive = f"piecework dlq redrive --job {job}{only} --reason 'what was found'"
        listed = f"piecework effects list {job} --chunk {chunk}; resolve what it lists"
        return f"{listed}, then {redrive}" if letter["effects_in_doubt"] else redrive
    if may_compensate_again(letter):
        return (
            f"fix the compensation, then "
            f"piecework dlq compensate --job {job}{only} --reason 'what was fixed'"
        )
    return (
        f"fix the cause, then "
        f"piecework dlq redrive --job {job}{only} --reason 'what was fixed'"
    )


def may_compensate_again(letter: Document) -> bool:
    """Return whether a compensation failed: a stage without one has nothing to run."""
    if letter.get("compensation") not in UNCOMPENSATED:
        return False
    known = letter.get("uncompensated_stages")
    return bool(letter.get("compensation_errors")) or not known


LINEAGE_COLUMNS = [
    Column("GEN", "gen", right=True),
    Column("DIED", "dead_lettered_at", drops=2),
    Column("CODE", "error_code"),
    Column("CAUSE", short_fingerprint, drops=1),
    Column("CLOSED", closed_as, folds=True),
    Column("WHY", "why", folds=True),
]


# ── list the causes of dead letters ──────────────────────────────────────────


def group_columns(now: float) -> list[Column]:
    """Return the columns of `dlq stats`."""
    return [
        Column("CAUSE", short_fingerprint),
        Column("COUNT", "count", right=True),
        Column("JOBS", lambda group: len(group["jobs"]), right=True, drops=6),
        Column("CODE", "error_code"),
        Column("STAGE", "stage", drops=2),
        Column("FIRST", lambda group: format_ago(group["first_died_at"], now), drops=5),
        Column("LAST", lambda group: format_ago(group["last_died_at"], now), drops=1),
        Column("OWNER", "owner", drops=4),
        Column("RAISED", lambda group: group["sample"].get("raised") or "", drops=3),
        Column("SAMPLE", lambda group: group["sample"]["error"], shrinks=True),
    ]
