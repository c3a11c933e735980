"""Draw a job, and a list of jobs, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Console

from piecework.domain.pause import Pause
from piecework.domain.tags import tags_text
from piecework.explain.findings import FINDINGS, Rank
from piecework_orchestrator.cli.output import Output, View, facts
from piecework_orchestrator.cli.table import Column, Document
from piecework_orchestrator.reading.job_documents import pause_command
from piecework_orchestrator.reading.numbers import format_usd, format_used
from piecework_orchestrator.reading.times import count, epoch, format_ago, format_span

if TYPE_CHECKING:
    from piecework_orchestrator.client import (
        JobFacts,  # `jobs show` does without the client
    )

#: The names of facts in words, where they differ.
NAMES = {"gen": "generation"}


def job_columns(now: float, *, tags: bool) -> list[Column]:
    """Return the columns of `jobs list`; `tags`: whether any job has some."""
    return [
        Column("JOB", "job"),
        Column("STATUS", status_text),
        Column("DONE", progress_text, right=True),
        Column("PIPELINE", pipeline_text, shrinks=True, drops=1),
        *([Column("TAGS", job_tags, folds=True, drops=1)] if tags else []),
        Column("CREATED", lambda job: format_ago(job["created_at"], now), drops=2),
        Column("TOOK", lambda job: duration_text(job, now), drops=3),
    ]


def job_tags(job: Document) -> str:
    """Return the tags of a job as text."""
    return tags_text(job.get("tags", {}))


def pipeline_text(job: Document) -> str:
    """Return the pipeline of a job, and whether a stage of another job started it."""
    return f"{job['pipeline']} (child)" if job.get("parent_job") else job["pipeline"]


def status_text(job: Document) -> str:
    """Return the status of a job, with the code of its pause."""
    pause = job.get("pause")
    return f"{job['status']} ({pause['code']})" if pause else str(job["status"])


def progress_text(job: Document) -> str:
    """Return how many chunks have a result; of an open job, how many have ended."""
    outcomes = job.get("outcomes")
    ended = outcomes.get("SUCCEEDED", 0) if outcomes else job.get("ended_chunks", 0)
    return f"{ended}/{job['chunks']}"


def event_facts_text(event: Document) -> str:
    """Return the facts of an event in words, without empty ones."""
    words = ((NAMES.get(k, k.replace("_", " ")), v) for k, v in event["facts"].items())
    return ", ".join(f"{name} {value}" for name, value in words if value != "")


def duration_text(job: Document, now: float) -> str:
    """Return how long a job's present generation took; empty: a tombstone lacks it."""
    if job["status"] == "DELETED":
        return ""
    taken = format_span(seconds_taken(job, now))
    taken += f" (gen {job['gen']})" if "reopened_at" in job else ""
    return taken if job.get("finished_at") else f"{taken} so far"


def seconds_taken(job: Document, now: float) -> float:
    """Return the seconds since the submit or the last reopening, until the end.

    A job may have ended days before a redrive.
    """
    began, end = job.get("reopened_at", job["created_at"]), job.get("finished_at")
    return (epoch(end) if end else now) - epoch(began)


def job_view(job: Document, now: float) -> View:
    """Return a view of a job with its counts, its certificate and the next command."""

    def draw(console: Console) -> None:
        reason = job.get("status_reason")
        dead = job["dead_letters"]
        console.print(
            facts(
                [
                    ("job", job["job"]),
                    ("status", job["status"]),
                    ("pipeline", job["pipeline"]),
                    ("queue", job.get("queue")),
                    ("source", job.get("source")),
                    ("tags", job_tags(job)),
                    ("parent", parent_text(job)),
                    ("created", creation_text(job, now)),
                    ("took", duration_text(job, now)),
                    ("reopened", reopening_text(job)),
                    ("deadline", deadline_text(job, now)),
                    ("tolerates", tolerance_text(job)),
                    ("left out", left_out_text(job)),
                    ("budget", budget_text(job)),
                    ("paused", pause_text(job, now)),
                    ("cancelled", cancel_text(job)),
                    ("quiesced", quiescence_text(job)),
                    ("chunks", chunk_counts_text(job)),
                    ("calls", calls_text(job)),
                    ("batches", batches_text(job)),
                    ("in doubt", doubt_text(job)),
                    ("outages", outages_text(job)),
                    ("errors", format_counts(job["error_codes"])),
                    ("code", format_counts(job["code_versions"])),
                    ("pinned to", job.get("pinned_to")),
                    ("lane", job.get("lane")),
                    ("changed", "\n".join(job.get("code_changes", ()))),
                    ("dead letters", f"{dead} open" if dead else ""),
                    (
                        "reason",
                        f"{reason['code']}: {reason['message']}" if reason else "",
                    ),
                    ("finding", finding_text(job, now)),
                    ("ends", finish_text(job)),
                    (
                        "notified",
                        "\n".join(map(notification_text, job.get("notifications", ()))),
                    ),
                    ("certificate", certificate_text(job)),
                    ("next", next_command(job)),
                ]
            )
        )

    return draw


def parent_text(job: Document) -> str:
    """Return which stage started a job; empty: none did."""
    if not job.get("parent_job"):
        return ""
    where = f"chunk {job['parent_chunk']} of {job['parent_job']}"
    root = job["root_job"]
    top = f"; the budget of {root}" if root != job["parent_job"] else ""
    return f"{where}, stage {job['parent_stage']}{top}"


def tombstone_view(job: Document, now: float) -> View:
    """Return a view of what a deleted job leaves."""
    told = job["deletion"]
    at = told.get("deleted_at")
    shown = [
        ("job", job["job"]),
        ("status", job["status"]),
        ("pipeline", job["pipeline"]),
        ("created", creation_text(job, now)),
        ("chunks", f"{job['chunks']}: {format_counts(told.get('outcomes', {}))}"),
        ("deleted", format_ago(at, now) if at else "not completely yet"),
        ("by", f"{told['deleted_by']}: {told['delete_reason']}"),
        ("certificate", f"SHA-256 {told.get('certificate_sha256', 'none')}"),
    ]
    return lambda console: console.print(facts(shown))


def finding_text(job: Document, now: float) -> str:
    """Return the most important finding; empty for an ended job."""
    findings = job.get("findings")
    if not findings:
        return ""
    first = findings[0]
    chunks, until = chunks_text(first), format_ago(first.get("until"), now)
    facts = ", ".join(filter(None, (chunks, f"until {until}" if until else "")))
    more = f"; {len(findings) - 1} more" if len(findings) > 1 else ""
    return f"{first['code']}: {first['message']} ({facts}{more})"


def finish_text(job: Document) -> str:
    """Return when a running job probably ends; empty for an ended one."""
    if "finish" not in job:
        return ""
    finish = job["finish"]
    if finish is None:
        return "unknown"
    p50, p90 = format_span(finish["p50_s"]), format_span(finish["p90_s"])
    return f"in {p50} (P50) to {p90} (P90)"


def chunks_text(finding: Document) -> str:
    """Return how many chunks a finding concerns."""
    about = "" if finding["exact"] else "about "
    return about + count(finding["chunks"], "chunk")


def finding_columns(now: float) -> list[Column]:
    """Return the columns of `jobs explain`."""
    return [
        Column("CODE", "code"),
        Column("FINDING", "message", folds=True),
        Column("CHUNKS", lambda row: chunks_text(row).split(" chunk")[0], right=True),
        Column("SINCE", lambda row: format_ago(row.get("since"), now), drops=2),
        Column("UNTIL", lambda row: format_ago(row.get("until"), now), drops=1),
    ]


def stop_lines(stopped: Document) -> list[str]:
    """Return what old and new code do in a stopped chunk, side by side."""
    from piecework_orchestrator.dead_letters.letters import (
        chunk_name,  # loads pydantic
    )

    name = chunk_name(stopped["chunk"])
    which = name if name == "join" else f"chunk {name}"
    lines = [f"{which}, stage {stopped['stage']}:"]
    for act in stopped["before"]:
        of = f" of {act['dependency']}" if act["dependency"] else ""
        what = f"{act['called']}{of} in {act['stage']}: {act['state']}"
        lines.append(f"  before  {what}, {act['at']}")
    if stopped["answered"]:
        calls = count(stopped["answered"], "pure call")
        lines.append(f"  before  {calls} answered")
    lines.append(f"  now     {stopped['now']}")
    return lines


def creation_text(job: Document, now: float) -> str:
    """Return when and by whom a job was submitted."""
    by = f" by {job['submitted_by']}" if job.get("submitted_by") else ""
    return f"{format_ago(job['created_at'], now)}{by}"


def reopening_text(job: Document) -> str:
    """Return how often a job was reopened, and the last actor and reason."""
    if "reopened_by" not in job:
        return ""
    times = job["gen"] - 1
    last = f"last at {job['reopened_at']} by {job['reopened_by']}"
    why = job.get("reopen_reason")
    return f"{times} x, {last}: {why}" if why else f"{times} x, {last}"


def pause_text(job: Document, now: float) -> str:
    """Return the reason, the actor and the time of a pause."""
    pause = job.get("pause")
    if not pause:
        return ""
    ago = format_ago(pause["at"], now)
    return f"{pause['code']}: {Pause(**pause).why}  (by {pause['actor']}, {ago})"


def budget_text(job: Document) -> str:
    """Return what is spent and reserved of each cap; empty without a budget."""
    budget = job.get("budget") or {}
    lines = []
    for kind, form in (("usd", format_usd), ("tokens", "{:,} tokens".format)):
        if budget.get(f"cap_{kind}") is None:
            continue
        spent, cap = (form(budget[f"{w}_{kind}"]) for w in ("spent", "cap"))
        more = [
            f"{most}{form(budget[f'{word}_{kind}'])} {text}"
            for word, most, text in (
                ("reserved", "", "reserved"),
                ("uncertain", "at most ", "possibly spent by lost workers"),
            )
            if budget[f"{word}_{kind}"]
        ]
        lines.append(", ".join([f"{spent} of {cap} spent", *more]))
    return "\n".join(lines)


def left_out_text(job: Document) -> str:
    """Return how many refused rows its submit left out, and the first of them."""
    if not (rows := job.get("left_out_rows")):
        return ""
    more = ", …" if rows > len(job["left_out"]) else ""
    return f"{count(rows, 'row')}: {', '.join(job['left_out'])}{more}"


def tolerance_text(job: Document) -> str:
    """Return how many chunks may fail in a job that succeeds; empty: none may."""
    if not (tolerated := job.get("tolerated_chunks")):
        return ""
    text = f"{count(tolerated, 'chunk')} without a result"
    if not (code := job.get("stopped_code")):
        return text
    return f"{text}; {code} at {job['failed_chunks']}: no further chunk starts"


def cancel_text(job: Document) -> str:
    """Return the actor and the reason of a cancel; empty if the job was reopened."""
    facts = job.get("cancel")
    if not facts:
        return ""
    named = filter(None, (facts.get("cancelled_by"), facts.get("cancel_reason")))
    by = f"by {': '.join(named)}"
    found = compensations_text(facts.get("compensations", {}))
    if job["status"] == "CANCELLED" and found:
        return f"{by}; {found}"
    return f"{by}; with compensation" if facts.get("cancel_compensates") else by


#: What remains of the chunks of a cancelled job, by the result of the compensation.
REMAINS = {
    "COMPENSATED": "compensated",
    "NOT_NEEDED": "with nothing to compensate",
    "NOT_REQUESTED": "not compensated, because the cancel did not request it",
    "FAILED": "with a failed compensation",
    "PAST_PIVOT": "not compensated, because they passed the pivot",
    "PIVOT_UNKNOWN": "not compensated, because they may have passed the pivot",
    "ABANDONED": "with an abandoned compensation",
}


def compensations_text(counts: Mapping[str, int]) -> str:
    """Return how many chunks without a result were compensated, and how many not."""
    return ", ".join(
        f"{counts[n]} {text}" for n, text in REMAINS.items() if n in counts
    )


def quiescence_text(job: Document) -> str:
    """Return how long a cancel took, and the calls that ended after it."""
    facts = job.get("cancel", {})
    if "quiesced_after_s" not in facts:
        return ""
    took = format_span(facts["quiesced_after_s"])
    return f"{took} after the cancel, with {facts['calls_after_cancel']} calls after it"


def notification_text(notification: Document) -> str:
    """Return the state of a notification as text."""
    state = notification["state"]
    text = f"{notification['event']} of generation {notification['gen']}: {state}"
    number = notification["attempts"]
    attempts = f" in {number} attempts" if number > 1 else ""
    error = f", {notification['last_error']}" if "last_error" in notification else ""
    return f"{text}{attempts}{error}"


def deadline_text(job: Document, now: float) -> str:
    """Return the deadline of a job and the time left."""
    until = job.get("deadline_at")
    return f"{until}  ({format_ago(until, now)})" if until else ""


def chunk_counts_text(job: Document) -> str:
    """Return the number of chunks, and the number by status."""
    about = "" if job["counts_exact"] else "about "
    return f"{job['chunks']}: {about}{format_counts(job['counts'])}"


def calls_text(job: Document) -> str:
    """Return how many calls were paid or came from the cache, and what they used."""
    calls = job["calls"]
    sampled = calls.get("sampled_chunks")
    about = f"about, by {sampled:,} of {job['chunks']:,} chunks: " if sampled else ""
    cached = f", and {calls['cached']} from the cache" if calls["cached"] else ""
    lost = calls["lost_claims"]
    more = f"; those of lost claims ({lost}): piecework jobs cost {job['job']}"
    again, running = calls["paid_again"], calls["running"]
    repeated = f", {again} of them again, because the code has changed" if again else ""
    repeated += f", {running:,} of them in chunks that run" if running else ""
    tokens = (calls["tokens_in"] or 0) + (calls["tokens_out"] or 0)
    used = "".join(f"; {word}" for word in format_used(0, tokens, calls["usd"] or 0.0))
    return f"{about}{calls['paid']:,}{repeated}{cached}{used}{more if lost else ''}"


def batches_text(job: Document) -> str:
    """Return the calls in the batch lane by where they are; empty without any."""
    if not (calls := job.get("batch_calls")):
        return ""
    about = "about " if job["calls"].get("sampled_chunks") else ""
    words = (
        ("gathered", "gathered"),
        ("in_batches", "in batches"),
        ("answered", "answered"),
        ("direct", "gone direct"),
    )
    parts = [f"{calls[name]:,} {text}" for name, text in words if calls[name]]
    return f"{about}{count(calls['requested'], 'call')}: {', '.join(parts)}"


def doubt_text(job: Document) -> str:
    """Return how many effects of ended chunks are in doubt."""
    number = job["effects_in_doubt"]
    noun = "effect" if number == 1 else "effects"
    listed = f"{number} {noun}; `piecework effects list {job['job']}` lists them"
    return listed if number else ""


def outages_text(job: Document) -> str:
    """Return how often an outage of AWS deferred a chunk of the job."""
    times = job["outages"]
    return f"{times} x a chunk waited for AWS; no attempt was spent" if times else ""


def format_counts(counts: Mapping[str, int]) -> str:
    """Return counts as text, the largest first."""
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{count} {name}" for name, count in ordered)


def without_certificate(job: Document) -> Document:
    """Return a job's document without its certificate, which names every chunk."""
    return {name: value for name, value in job.items() if name != "certificate"}


def certificate_text(job: Document) -> str:
    """Return a certificate as a line."""
    found = job.get("certificate")
    if not found:
        return ""
    missing = [str(row["chunk"]) for row in found.get("missing", ())]
    results = found["outcomes"].get("SUCCEEDED", 0)
    text = f"{results} of {found['chunks']} results"
    if missing:
        more = ", …" if len(missing) > 10 else ""  # noqa: PLR2004 -- fits a line
        text += f"; missing: {', '.join(missing[:10])}{more}"
    if found.get("patched"):
        text += f"; {len(found['patched'])} with a patched payload"
    if found["join_error"]:
        text += f"; the join died of {found['join_error']}"
    return f"{text}; manifest {found['manifest_sha256'][:12]}"


def next_command(job: Document) -> str:
    """Return the next command."""
    name = job["job"]
    reason = job.get("status_reason")
    if reason and reason["code"] == "runtime.pipeline.unknown":
        return f"piecework worker --pipelines MODULE  (the module of {job['pipeline']})"
    if job["status"] == "PAUSED":
        return pause_command(job)
    # Its letters may all be closed; a submit does not count them.
    letters = f"piecework dlq list --job {name}"
    letters += "" if job.get("dead_letters", 1) else " --all"
    retry = f"piecework jobs retry {name} --reason 'why'"
    by_status = {
        "SUBMITTING": "piecework reconcile  (or repeat the submit)",
        "SUCCEEDED": f"piecework results {name}",
        "CANCELLED": letters if job.get("dead_letters") else retry,
        "PARTIAL": letters,
        "FAILED": letters,
        "DELETING": f"piecework jobs delete {name}",
        "DELETED": "piecework jobs list",
    }
    return by_status.get(job["status"]) or needed_command(job)


def needed_command(job: Document) -> str:
    """Return the next command of an open job: what helps, or to watch it.

    A job that waits for an operator does not end while one watches it.
    """
    for first in job.get("findings", ())[:1]:
        if FINDINGS[first["code"]].rank < Rank.PASSES:
            return str(first["next"])
    return f"piecework jobs watch {job['job']}"


def show_facts(out: Output, job: JobFacts, told: Document | None = None) -> None:
    """Write a job as it is now, with what a submit tells of it.

    `told["new"]` is whether the submit created the job.
    """
    document = {**job.document, **(told or {})}
    exists = document.get("new") is False
    note = "  (it exists with the same content)" if exists else ""
    shown = facts(
        [
            ("job", job.id),
            ("status", f"{status_text(document)}{note}"),
            ("chunks", job.chunks),
            ("deadline", document.get("deadline_at")),
            ("budget", budget_text(document)),
        ]
    )
    out.document(document, lambda console: console.print(shown))
    out.say(f"next: {next_command(document)}")
