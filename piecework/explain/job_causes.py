"""The causes of the job itself: its writing, pauses, workers, join, letters and end.

Each cause is one function; `causes.py` lists them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from piecework.domain import keys
from piecework.domain.budget import NO_CAP, Cap
from piecework.domain.job import SUBMIT_TIMEOUT_S
from piecework.domain.ladder import Climb
from piecework.domain.moments import iso, moment
from piecework.domain.pause import PauseCode
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.domain.unstable_key import UNSTABLE_CODE, UnstableKey
from piecework.explain.changed import OLD_MAY_RUN, accept_command, is_stopped
from piecework.explain.findings import Finding
from piecework.explain.situation import is_unstable
from piecework.explain.view import NAMED, View
from piecework.explain.waiting import wait_of
from piecework.resilience.budget import DAY_RESERVED_CODE, RESERVED_CODE, next_day

# ── what stops the whole job ──────────────────────────────────────────────────


def submit_unfinished(view: View) -> Iterator[Finding]:
    """Find a submit or a retry without progress."""
    job = view.at.job
    writing = job.status in {JobStatus.SUBMITTING, JobStatus.REOPENING}
    sent = job.sent_at or job.reopened_at
    sending = job.status is JobStatus.RUNNING and not sent
    quiet_s = view.at.now - moment(job.progress_at)
    if view.at.run_line:
        return  # nothing but the run finishes it
    if (writing or sending) and quiet_s >= SUBMIT_TIMEOUT_S:
        verb = "retry" if job.status is JobStatus.REOPENING else "submit"
        message = f"The {verb} of the job stopped before all its chunks were sent."
        yield view.finding(
            "submit.unfinished", message, job.chunks, since=job.progress_at
        )


def parent_waits(view: View) -> Iterator[Finding]:
    """Find that a stage of another job waits for this one."""
    job = view.at.job
    if job.parent_job and job.status.is_open:
        where = f"chunk {job.parent_chunk} of job {job.parent_job}"
        message = f"Stage {job.parent_stage} of {where} waits for this job."
        known = {"parent": job.parent_job}
        yield view.finding("parent.waiting", message, view.chunks, **known)


def job_paused(view: View) -> Iterator[Finding]:
    """Find that the job is paused."""
    pause = view.at.job.pause
    if pause is not None and pause.code == PauseCode.BUDGET:
        message = f"{pause.message[:1].upper()}{pause.message[1:]}."
        yield view.finding(
            "tenant.budget_spent" if pause.until else "job.budget_spent",
            message,
            view.chunks,
            since=pause.at,
            until=pause.until,
            tenant=view.at.job.ref.tenant,
            unit=pause.unit,
        )
    elif pause is not None and pause.code == PauseCode.PIPELINE:
        pipeline = view.at.job.pipeline
        message = f"{pause.actor} paused pipeline {pipeline}: {pause.why}"
        yield view.finding(
            "pipeline.paused", message, view.chunks, since=pause.at, pipeline=pipeline
        )
    elif pause is not None and pause.code == PauseCode.PARENT:
        parent, why = view.at.job.parent_job, pause.why
        message = f"{why[:1].upper()}{why[1:]}."
        yield view.finding(
            "parent.paused", message, view.chunks, since=pause.at, parent=parent
        )
    elif pause is not None:
        message = f"{pause.actor} paused the job: {pause.why}"
        if pause.code == PauseCode.SAMPLE:
            message = f"The job is paused after its sample: {pause.message}."
        yield view.finding("job.paused", message, view.chunks, since=pause.at)


#: What is found while no process has a state file.
NO_RUN: Final = "No process works on this run; the same line goes on with it."


def workers_missing(view: View) -> Iterator[Finding]:
    """Find that no worker can take the chunks: none runs, or all are busy."""
    if not view.needs_worker:
        return
    if view.at.run_line:
        found = view.finding("workers.none", NO_RUN, view.chunks or view.at.job.chunks)
        yield replace(found, command=view.at.run_line)
        return
    if view.at.workers is None:
        return
    chunks, pipeline = view.chunks or view.at.job.chunks, view.at.job.pipeline
    having = [worker for worker in view.live if pipeline in worker.pipelines]
    if not view.live:
        # An idle worker reports rarely, so one that was killed may have acted later.
        signs = [worker.reported_at for worker in view.at.workers]
        signs += map(iso, [*view.acts, *map(view.renewed_at, view.abandoned)])
        since = max(signs, default="")
        message = "No worker runs in this deployment."
        yield view.finding("workers.none", message, chunks, since=since)
    elif having and not any(map(view.runs_version, having)):
        have = {each.code_versions.get(pipeline, "") or "unknown" for each in having}
        message = (
            f"The job is pinned to code version {view.at.job.pinned_to}; the workers "
            f"with pipeline {pipeline} have {', '.join(sorted(have)[:NAMED])}."
        )
        yield view.finding("workers.version_missing", message, chunks)
    elif having and not view.serving:
        queue = view.at.job.queue or keys.DEFAULT_QUEUE
        message = f"No worker with pipeline {pipeline} receives from queue {queue}."
        yield view.finding("workers.queue_missing", message, chunks, queue=queue)
    elif not view.serving:
        names = ", ".join(worker.worker for worker in view.live[:NAMED])
        message = f"No worker has pipeline {pipeline}; those that run: {names}."
        yield view.finding("workers.pipeline_missing", message, chunks)
    elif view.due and not view.moves and all(each.is_full for each in view.serving):
        full = len(view.serving)
        whose = "The worker" if full == 1 else f"All {full} workers"
        message = (
            f"{whose} with pipeline {pipeline} had no free slot at the last report."
        )
        since = min(worker.reported_at for worker in view.serving)
        yield view.finding("workers.busy", message, view.due, since=since)


# ── what is left after the chunks ─────────────────────────────────────────────


def join_open(view: View) -> Iterator[Finding]:
    """Find that the join waits or asks, or that it failed."""
    join, job = view.at.join, view.at.job
    if join is None:
        return
    if job.status.ended and join.status is ChunkStatus.DEAD:
        message = f"The join failed with {join.error_code}."
        yield view.finding("join.failed", message, 1, since=join.ended_at)
    wait = wait_of(join, view.at.now)
    if join_lacks(view, RESERVED_CODE):
        message, unit = "The join waits: the budget is spent.", unit_of(job.budget)
        yield view.finding("job.budget_spent", message, 1, unit=unit)
    elif join_lacks(view, DAY_RESERVED_CODE):
        message, tenant = "The join waits: the daily budget is spent.", job.ref.tenant
        caps = view.at.fleet.daily_caps if view.at.fleet else {}
        named = {"tenant": tenant, "unit": unit_of(caps.get(tenant, NO_CAP), "daily")}
        until = next_day(view.at.now)
        yield view.finding("tenant.budget_spent", message, 1, until=until, **named)
    elif wait is not None and wait.question:
        message = f"The join waits for the answer of a person: {wait.question}."
        yield view.finding("answer.waiting", message, 1, until=wait.until)
    elif wait is not None and wait.until and is_stopped(join):
        now = (view.at.stopped or {}).get("now") or "the pipeline has changed"
        why = now[:1].lower() + now[1:].rstrip(".")
        message = f"The join waits for another version of the code: {why}."
        if join.code_version:
            message += f" Workers of {join.code_version} left it."
        message += f" {OLD_MAY_RUN}"
        yield view.finding("version.safe_needed", message, 1, until=wait.until)
    elif wait is not None and wait.until:
        after = f" after {join.error_code}" if join.error_code else ""
        message = f"All chunks have ended; the join waits{after}."
        yield view.finding("join.waiting", message, 1, until=wait.until)


def join_lacks(view: View, *codes: str) -> bool:
    """Return whether a spent budget stops the join, which no pause can show.

    The end of its last claim tells it, unless the budget was set since. A join that
    runs waits for room in its worker, but no longer than a call may.
    """
    join = view.at.join
    if join is None or join.status.ended:
        return False
    longest = iso(view.at.now - view.at.quota_wait_s)
    waits = join.status is not ChunkStatus.RUNNING or join.claimed_at > longest
    return waits and any(
        end.get("code") in codes and end.get("to", "") >= view.at.budget_since
        for end in join.history[-1:]
    )


def unit_of(cap: Cap, option: str = "budget") -> str:
    """Return the unit in which a command raises a cap.

    The failure of a join does not say what is spent. So the command has both units if
    the cap has both, or if it is unknown.
    """
    has_one = (cap.tokens is None) is not (cap.nano_usd is None)
    return cap.unit if has_one else f"usd N --{option}-tokens"


def cancel_unfinished(view: View) -> Iterator[Finding]:
    """Find a cancel whose chunks have not all ended."""
    job = view.at.job
    if job.status is JobStatus.CANCELLING:
        message = "The job is cancelled; its last chunks are ending."
        since = job.cancelled_at
        yield view.finding("cancel.unfinished", message, view.chunks, since=since)


# ── what does not hold the job up ─────────────────────────────────────────────


def progressing(view: View) -> Iterator[Finding]:
    """Find that workers run chunks, or that chunks are being written."""
    job = view.at.job
    if job.status.ended or job.status is JobStatus.CANCELLING:
        return
    if join_lacks(view, RESERVED_CODE, DAY_RESERVED_CODE):
        return
    if job.status is JobStatus.PAUSED and not view.running:
        return
    writing = job.status in {JobStatus.SUBMITTING, JobStatus.REOPENING}
    quiet_s = view.at.now - moment(job.progress_at)
    if view.working:
        what = "the join" if view.working[-1].ref.is_join else "chunks of the job"
        yield view.finding("job.progressing", f"Workers run {what}.", view.working)
    elif writing and quiet_s < SUBMIT_TIMEOUT_S:
        message = "The chunks are being written."
        yield view.finding("job.progressing", message, job.chunks)


def about_to_continue(view: View) -> Iterator[Finding]:
    """Find that a worker is about to act; only beside no other cause."""
    if not view.chunks and not view.at.job.status.ended:
        message = "All chunks have ended; a worker is about to end the job."
        yield view.finding("job.progressing", message, 0)
    elif view.sent and (view.serving or view.at.workers is None):
        message = "The chunks were sent; a worker is about to claim them."
        yield view.finding("job.progressing", message, 0)


def letters_open(view: View) -> Iterator[Finding]:
    """Find open dead letters, or that some were not read."""
    letters, ended = view.at.letters, view.at.job.status.ended
    if letters.number:
        name = "dead_letters.left" if ended else "dead_letters.open"
        few = "" if letters.complete else "At least "
        noun = "dead letter is" if letters.number == 1 else "dead letters are"
        message = f"{few}{letters.number} {noun} open."
        if not letters.complete:
            message += " Later ones were not read."
        if letters.damaged:
            message += f" Damaged ones among them: {letters.damaged}."
        job = view.at.job.ref.job
        if letters.in_doubt:
            message += (
                f" {letters.in_doubt} died of an effect in doubt: before a redrive "
                f"resolve what `piecework effects list {job}` lists."
            )
        if letters.resolved:
            message += (
                f" No effect of {letters.resolved} is in doubt any more: "
                f"`piecework dlq redrive --job {job} --reason WHY` continues."
            )
        if letters.without_effect:
            message += (
                f" In {letters.without_effect}, a stage was not compensated, because "
                "no effect of it happened."
            )
        if letters.changed is not None:
            message += (
                f" Newer code has stopped chunk {letters.changed.name}: before a "
                f"redrive, run workers of the version before, or accept the change: "
                f"`{accept_command(job)}`."
            )
        message += climbed(letters.climbs)
        yield view.finding(name, message, letters.number, since=letters.since)
    elif not letters.complete:
        message = "The dead letters that were read are closed. Others were not."
        yield view.finding("dead_letters.unread", message, 0)


def effects_in_doubt(view: View) -> Iterator[Finding]:
    """Find that ended chunks have left effects in doubt."""
    job = view.at.job
    if (number := job.effects_in_doubt) and job.status.ended:
        noun = "effect is" if number == 1 else "effects are"
        message = f"{number} {noun} in doubt."
        yield view.finding("effects.in_doubt", message, 0, since=job.finished_at)


def climbed(climbs: Sequence[Climb]) -> str:
    """Return which rungs dead letters have reached, and which one comes next when."""
    last = Counter(
        each.rungs[each.position - 1].name for each in climbs if each.position
    )
    ahead = [each.next for each in climbs if each.next is not None]
    reached = ", ".join(f"{name} ({number})" for name, number in last.items())
    text = f" Rungs reached: {reached}." if reached else ""
    if ahead:
        first = min(ahead, key=lambda rung: rung.due_at)
        text += f" Next rung: {first.name} at {first.due_at[:19]}Z."
    return text


def code_changed(view: View) -> Iterator[Finding]:
    """Find that workers went on with a pipeline that has changed since the submit."""
    if changes := view.at.job.code_changes:
        more = f" And {len(changes) - 1} more." if len(changes) > 1 else ""
        message = f"The pipeline has changed since the submit: {changes[0]}{more}"
        yield view.finding("version.changed", message, 0)


def keys_unstable(view: View) -> Iterator[Finding]:
    """Find a call that each run of its stage makes with other arguments."""
    at = view.at
    rows = [chunk for chunk in at.open.unstable if chunk.unstable_call]
    if at.join is not None and is_unstable(at.join):
        rows.append(at.join)
    found = rows[0].unstable_call if rows else at.job.unstable_call
    if found:
        yield view.finding(UNSTABLE_CODE, UnstableKey.read(found).words, rows or 0)


def webhooks_failed(view: View) -> Iterator[Finding]:
    """Find webhooks of which an event failed finally."""
    for hook in view.at.webhooks or ():
        if hook.failed_at and hook.pipeline in ("", view.at.job.pipeline):
            message = f"Webhook {hook.name} did not accept an event: {hook.last_error}."
            named = {"since": hook.failed_at, "webhook": hook.name}
            yield view.finding("webhook.failed", message, 0, **named)


def fleet_unreadable(view: View) -> Iterator[Finding]:
    """Find that this operator cannot read the record of the fleet."""
    if view.at.fleet is None or view.at.workers is None:
        message = "Your role cannot read the workers, breakers and limits."
        yield view.finding("fleet.unreadable", message, 0)


def ended(view: View) -> Iterator[Finding]:
    """Find that the job has ended."""
    job = view.at.job
    if job.status.ended:
        message = f"The job has ended {job.status}."
        yield view.finding("job.ended", message, 0, since=job.finished_at)
