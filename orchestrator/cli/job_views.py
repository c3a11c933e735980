"""How a job looks to a person, and a list of them."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from orchestrator.cli.output import Column, Document, facts
from orchestrator.cli.times import ago, at, between, span
from orchestrator.cli.views import View


def job_columns(now: float) -> list[Column]:
    """Return the columns of `jobs list`."""
    return [
        Column("JOB", "job"),
        Column("STATUS", "status"),
        Column("DONE", done, right=True),
        Column("PIPELINE", "pipeline", shrinks=True),
        Column("CREATED", lambda job: ago(job["created_at"], now)),
        Column("TOOK", lambda job: took(job, now)),
    ]


def done(job: Document) -> str:
    """Return how many chunks have a result, of how many; or have ended so far."""
    outcomes = job.get("outcomes")
    ended = outcomes.get("SUCCEEDED", 0) if outcomes else job.get("settled", 0)
    return f"{ended}/{job['chunks']}"


def took(job: Document, now: float) -> str:
    """Return how long a job took, or has been at it."""
    if job.get("finished_at"):
        return between(job["created_at"], job["finished_at"])
    return f"{span(now - at(job['created_at']))} so far"


def job_view(job: Document, now: float) -> View:
    """Draw a job with its counts, its certificate and what to type next."""

    def draw(console: Console) -> None:
        told = job.get("notice")
        dead = job["dead_letters"]
        console.print(
            facts(
                [
                    ("job", job["job"]),
                    ("status", job["status"]),
                    ("pipeline", job["pipeline"]),
                    ("source", job.get("source")),
                    ("created", created(job, now)),
                    ("took", took(job, now)),
                    ("resumed", resumed(job)),
                    ("deadline", deadline(job, now)),
                    ("cancelled", cancelled(job)),
                    ("quiet", quiet(job)),
                    ("chunks", counted(job)),
                    ("calls", paid(job)),
                    ("errors", tally(job["error_codes"])),
                    ("dead letters", f"{dead} open" if dead else ""),
                    ("notice", noticed(told, now) if told else ""),
                    ("told", "\n".join(map(told_of, job.get("notices", ())))),
                    ("certificate", certified(job)),
                    ("next", next_step(job)),
                ]
            )
        )

    return draw


def noticed(notice: Document, now: float) -> str:
    """Return why a job does not get on; nothing, if that is over."""
    if notice["until"] and at(notice["until"]) <= now:
        return ""
    return f"{notice['code']}: {notice['message']}"


def created(job: Document, now: float) -> str:
    """Return when and by whom a job was submitted."""
    by = f" by {job['submitted_by']}" if job.get("submitted_by") else ""
    return f"{ago(job['created_at'], now)}{by}"


def resumed(job: Document) -> str:
    """Return how often a job was taken up again, by whom at last and why."""
    if "resumed_by" not in job:
        return ""
    times = job["gen"] - 1
    return f"{times} x, last by {job['resumed_by']}: {job.get('resume_reason', '')}"


def cancelled(job: Document) -> str:
    """Return who cancelled a job and why; what was taken up again since is not."""
    facts = job.get("cancel")
    if not facts:
        return ""
    by = f"by {facts.get('cancelled_by', '')}: {facts.get('cancel_reason', '')}"
    return f"{by}; what was done is undone" if facts.get("cancel_undoes") else by


def quiet(job: Document) -> str:
    """Return how long a cancel took, and what was paid for after it."""
    facts = job.get("cancel", {})
    if "to_quiet_s" not in facts:
        return ""
    took = span(facts["to_quiet_s"])
    return f"{took} after the cancel, with {facts['late_calls']} calls after it"


def told_of(notice: Document) -> str:
    """Return what became of a notice."""
    said = f"{notice['event']} of generation {notice['gen']}: {notice['notice_state']}"
    tries = f" in {notice['tries']} tries" if notice["tries"] > 1 else ""
    return f"{said}{tries}" + (f", {notice['said']}" if "said" in notice else "")


def deadline(job: Document, now: float) -> str:
    """Return until when a job has to end."""
    until = job.get("deadline_at")
    return f"{until}  ({ago(until, now)})" if until else ""


def counted(job: Document) -> str:
    """Return the number of chunks and, by status, the numbers that add up to it."""
    return f"{job['chunks']}: {tally(job['counts'])}"


def paid(job: Document) -> str:
    """Return how many calls were paid for, and how many another job had paid for."""
    made, cached = job["calls"]["paid"], job["calls"]["cached"]
    return f"{made}, and {cached} from the cache" if cached else f"{made}"


def tally(counts: Mapping[str, int]) -> str:
    """Return counts as text, the largest first."""
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{count} {name}" for name, count in ordered)


def certified(job: Document) -> str:
    """Return a certificate in a line."""
    found = job.get("certificate")
    if not found:
        return ""
    missing = [str(row["chunk"]) for row in found["missing"]]
    said = f"{len(found['results'])} of {found['chunks']} results"
    if missing:
        more = ", …" if len(missing) > 10 else ""  # noqa: PLR2004 -- fit for a line
        said += f"; missing: {', '.join(missing[:10])}{more}"
    if found.get("patched"):
        said += f"; {len(found['patched'])} of a payload that was patched"
    if found["join_error"]:
        said += f"; the join died of {found['join_error']}"
    return f"{said}; manifest {found['manifest_sha256'][:12]}"


def next_step(job: Document) -> str:
    """Return what to type next."""
    name = job["job"]
    told = job.get("notice")
    if told and told["code"] == "runtime.pipeline.unknown":
        return (
            f"piecework-worker --pipelines MODULE  (one that holds {job['pipeline']})"
        )
    by_status = {
        "SUBMITTING": "piecework reconcile  (or the same submit again)",
        "SUCCEEDED": f"piecework results {name}",
        "CANCELLED": f"piecework jobs resume {name} --reason 'why'",
        "PARTIAL": f"piecework dlq list --job {name}",
        "FAILED": f"piecework dlq list --job {name}",
    }
    return by_status.get(job["status"], f"piecework jobs watch {name}")
