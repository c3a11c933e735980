"""Decide which findings a situation has; nothing here reads or writes.

Each cause is one function. `CAUSES` lists them; a new cause is one more function, and
one more row in the table of findings.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from piecework.domain import keys
from piecework.domain.job_row import SUBMIT_TIMEOUT_S, PauseCode
from piecework.domain.ladder import Climb
from piecework.domain.model import MICROS, Chunk, ChunkStatus, JobStatus, iso, moment
from piecework.domain.rows import LATE_S, WorkerRow
from piecework.explain.findings import FINDINGS, Finding, Rank
from piecework.explain.finish_time import FinishTime, estimate
from piecework.explain.situation import Situation
from piecework.explain.waiting import Wait, WaitReason, wait_of
from piecework.resilience.breaker import BreakerPhase
from piecework.resilience.limits import AHEAD

#: Seconds within which a worker with a free slot claims a chunk that is due.
CLAIM_S: Final = 30.0
#: The part of a lease that is left at least while its worker lives: it renews the lease
#: each third of it. What is missing to two thirds is margin.
LEFT_OF_LEASE: Final = 0.5
#: Workers that a message names.
NAMED: Final = 3
#: The waits that no worker ends. A chunk behind another one waits as that one does.
AT_REST: Final = {WaitReason.TIMER, WaitReason.ANSWER, WaitReason.ORDER_STOPPED}


def find(situation: Situation) -> list[Finding]:
    """Return the findings of a situation, the most important first; at least one."""
    view = View(situation)
    found = [finding for cause in CAUSES for finding in cause(view)]
    if all(finding.kind.rank > Rank.PASSES for finding in found):
        found += about_to_continue(view)
    order = list(FINDINGS)

    def key(finding: Finding) -> tuple[int, int, int]:
        rank, place = finding.kind.rank, order.index(finding.kind.code)
        by_chunks = 0 if rank is Rank.BLOCKS_JOB else -finding.chunks
        return rank, by_chunks, place

    return sorted(found, key=key)


def finish_time(situation: Situation, first: Finding) -> FinishTime | None:
    """Return the time until the chunks have ended; None: unknown.

    While something stops the job that does not pass by itself, it is unknown.
    """
    job = situation.job
    if first.kind.rank < Rank.PASSES or job.status is not JobStatus.RUNNING:
        return None
    if job.holds_rest:
        return None  # `jobs forecast` tells it after the sample
    now, open_ = situation.now, situation.open
    elapsed = [max(0.0, now - claimed) for claimed in open_.times.claimed]
    running = open_.estimate(len(elapsed))
    return estimate(situation.throughput, open_.number, elapsed, running)


@dataclass(frozen=True)
class View:
    """A situation, and what several causes need of it."""

    at: Situation

    @cached_property
    def chunks(self) -> tuple[Chunk, ...]:
        """The chunks that have not ended, with the join."""
        join = self.at.join
        open_ = join is not None and not join.status.terminal
        chunks = tuple(self.at.open.chunks)
        return (*chunks, join) if open_ and join else chunks

    @cached_property
    def waits(self) -> list[tuple[Chunk, Wait]]:
        """The WAITING and the blocked chunks, each with its wait; without the join."""
        stopped = self.at.letters.stopped_keys
        found = (
            (chunk, wait_of(chunk, self.at.now, stopped))
            for chunk in self.at.open.chunks
        )
        # A chunk that a pause of its job gave back waits for a worker after the resume.
        return [
            (chunk, wait)
            for chunk, wait in found
            if wait is not None and wait != Wait(WaitReason.PAUSED)
        ]

    @cached_property
    def due(self) -> list[Chunk]:
        """The chunks that a worker may claim now."""
        return [c for c in self.chunks if self.due_since(c) <= self.at.now]

    @cached_property
    def sent(self) -> bool:
        """Whether chunks are with the workers, and each wait is for one or an order."""
        waiting = [
            chunk
            for chunk, wait in self.waits
            if chunk.blocked_by is None and wait.reason is not WaitReason.WORKER
        ]
        unblocked = any(chunk.blocked_by is None for chunk in self.chunks)
        return unblocked and not (waiting or self.abandoned)

    @cached_property
    def running(self) -> list[Chunk]:
        """The chunks whose owner renews its lease."""
        return [
            chunk
            for chunk in self.chunks
            if chunk.status is ChunkStatus.RUNNING and not self.is_abandoned(chunk)
        ]

    @cached_property
    def abandoned(self) -> list[Chunk]:
        """The chunks whose owner does not renew its lease any more."""
        running = (c for c in self.chunks if c.status is ChunkStatus.RUNNING)
        return [chunk for chunk in running if self.is_abandoned(chunk)]

    @cached_property
    def silent(self) -> set[str]:
        """The workers that own an abandoned chunk."""
        return {chunk.claimed_by for chunk in self.abandoned}

    @cached_property
    def live(self) -> list[WorkerRow]:
        """The workers that reported in time, and that would have claimed due chunks."""
        return [worker for worker in self.at.workers or () if self.is_live(worker)]

    @cached_property
    def serving(self) -> list[WorkerRow]:
        """The live workers that have the pipeline of the job, and its queue."""
        return [worker for worker in self.live if self.may_serve(worker)]

    @cached_property
    def needs_worker(self) -> bool:
        """Whether the job cannot continue unless a worker does something."""
        status = self.at.job.status
        paused = status is JobStatus.PAUSED
        return not (status.ended or paused or self.running or self.is_at_rest)

    @cached_property
    def moves(self) -> bool:
        """Whether a worker may have claimed or ended a chunk of the job a moment ago.

        Between two chunks of a worker, none of them runs. Of a large job that has
        begun, the groups in which chunks run may not be in the sample.
        """
        open_ = self.at.open
        times = [*open_.times.claimed, *(end for _, end in open_.times.spans)]
        if not open_.exact and (times or open_.full_groups):
            return True
        return self.at.now - max(times, default=0.0) < CLAIM_S

    @cached_property
    def is_at_rest(self) -> bool:
        """Whether each open chunk waits for a moment, a person or a dead letter."""
        reasons = {chunk.ref: wait.reason for chunk, wait in self.waits}
        found = {
            reasons.get(chunk.ref)
            for chunk in self.chunks
            if not self.at.job.waits_for_sample(chunk.ref.chunk)
        }
        return bool(found & AT_REST) and found <= {*AT_REST, WaitReason.ORDER}

    @cached_property
    def owners(self) -> dict[str, WorkerRow]:
        """All workers that reported, by name."""
        return {worker.worker: worker for worker in self.at.workers or ()}

    def due_since(self, chunk: Chunk) -> float:
        """Return since when a chunk may be claimed; infinite: it may not."""
        job = self.at.job
        if chunk.blocked_by is not None or job.waits_for_sample(chunk.ref.chunk):
            return float("inf")
        if chunk.status is ChunkStatus.RUNNING or job.status is JobStatus.PAUSED:
            return float("inf")
        sent = job.finalizing_at if chunk.ref.is_join else job.dispatched_at
        # `due_at` alone: an answer has ended the wait of the chunk.
        since = chunk.retry_at or chunk.due_at or sent or job.created_at
        return moment(max(since, chunk.given_back_at, job.resumed_at))

    def is_abandoned(self, chunk: Chunk) -> bool:
        """Return whether the owner of a RUNNING chunk missed a renewal or a report.

        If it renewed the lease after the report was due, only the report failed.
        """
        owner = self.owners.get(chunk.claimed_by)
        lease_s = self.at.lease_s if owner is None else owner.lease_s
        if not chunk.claim_expires_at:
            return True
        now, until = self.at.now, moment(chunk.claim_expires_at)
        if owner and owner.is_late(now) and until - lease_s <= moment(owner.due_at):
            return True
        return until - now < lease_s * LEFT_OF_LEASE

    def pause_of(self, dependency: str) -> str | None:
        """Return why a dependency is paused; empty: unknown; None: it is not."""
        if self.at.fleet is None:
            return ""
        quota = self.at.fleet.quotas.get(dependency)
        return quota.paused or None if quota else None

    def may_serve(self, worker: WorkerRow) -> bool:
        """Return whether a worker has the pipeline of the job, and its queue."""
        job = self.at.job
        has_queue = (job.queue or keys.DEFAULT_QUEUE) in worker.queues
        return has_queue and job.pipeline in worker.pipelines

    def is_live(self, worker: WorkerRow) -> bool:
        """Return whether a worker takes chunks, as far as its reports show.

        A lease that is not renewed shows a death before the next report is late. An
        idle worker reports rarely. If a chunk has been due for long since its last
        report, it may be dead.
        """
        if not worker.is_live(self.at.now) or worker.worker in self.silent:
            return False
        if worker.in_progress or not self.may_serve(worker):
            return True
        since = min(map(self.due_since, self.due), default=self.at.now)
        ignored = self.at.now - since > CLAIM_S
        return not (ignored and moment(worker.reported_at) < since)

    def finding(
        self,
        code: str,
        message: str,
        chunks: Sequence[object] | int,
        *,
        since: str = "",
        until: str = "",
        **named: str,
    ) -> Finding:
        """Return a finding; `chunks`: those that were read, or their exact number."""
        kind, job, open_ = FINDINGS[code], self.at.job, self.at.open
        exact = isinstance(chunks, int) or open_.exact
        number = chunks if isinstance(chunks, int) else open_.estimate(len(chunks))
        command = kind.command.format(job=job.ref.job, **named)
        until = until if until > iso(self.at.now) else ""
        return Finding(kind, message, number, exact, since, until, command)


# ── causes that stop the whole job ────────────────────────────────────────────


def submit_unfinished(view: View) -> Iterator[Finding]:
    """Find a submit or a retry without progress."""
    job = view.at.job
    writing = job.status in {JobStatus.SUBMITTING, JobStatus.REOPENING}
    sent = job.sent_at or job.reopened_at
    sending = job.status is JobStatus.RUNNING and not sent
    quiet_s = view.at.now - moment(job.progress_at)
    if (writing or sending) and quiet_s >= SUBMIT_TIMEOUT_S:
        verb = "retry" if job.status is JobStatus.REOPENING else "submit"
        message = f"The {verb} of the job stopped before all its chunks were sent."
        yield view.finding(
            "submit.unfinished", message, job.chunks, since=job.progress_at
        )


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
    elif pause is not None:
        message = f"{pause.actor} paused the job: {pause.why}"
        if pause.code == PauseCode.SAMPLE:
            message = f"The job is paused after its sample: {pause.message}."
        yield view.finding("job.paused", message, view.chunks, since=pause.at)


def workers_missing(view: View) -> Iterator[Finding]:
    """Find that no worker can take the chunks: none runs, or all are busy."""
    if view.at.workers is None or not view.needs_worker:
        return
    chunks, pipeline = view.chunks or view.at.job.chunks, view.at.job.pipeline
    having = [worker for worker in view.live if pipeline in worker.pipelines]
    if not view.live:
        reports = [worker.reported_at for worker in view.at.workers]
        since = max(reports, default="")
        message = "No worker runs in this deployment."
        yield view.finding("workers.none", message, chunks, since=since)
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


# ── causes of some chunks ─────────────────────────────────────────────────────


def newer_needed(view: View) -> Iterator[Finding]:
    """Find chunks that only a newer version can run or read."""
    waiting = chunks_for(view, WaitReason.NEWER_WORKERS)
    chunks = [*waiting, *range(view.at.open.newer)]
    if chunks:
        message = "A newer version of Piecework wrote these chunks."
        yield view.finding("version.newer_needed", message, chunks)


def dependencies_paused(view: View) -> Iterator[Finding]:
    """Find dependencies that an operator has paused."""
    for name, chunks in by_blocker(view, WaitReason.PAUSED).items():
        why = view.pause_of(name)
        if why is not None:
            message = f"Dependency {name} is paused" + (f": {why}." if why else ".")
            yield view.finding("dependency.paused", message, chunks, dependency=name)


def breakers_open(view: View) -> Iterator[Finding]:
    """Find chunks that wait for an open circuit breaker, by dependency."""
    fleet = view.at.fleet
    for name, chunks in by_blocker(view, WaitReason.BREAKER).items():
        state = fleet.breakers.get(name) if fleet else None
        is_open = state is not None and state.phase is not BreakerPhase.CLOSED
        code = state.failure_code if state and is_open else chunks[0].error_code
        next_try = min(moment(chunk.retry_at) for chunk in chunks)
        until = max(next_try, state.open_until if state and is_open else 0.0)
        opened = fleet.opened_at.get(name, "") if fleet and is_open else ""
        verb = "is" if is_open or fleet is None else "was"
        message = f"The circuit breaker of dependency {name} {verb} open"
        message += f" after {code}." if is_open else "."
        yield view.finding(
            "breaker.open",
            message,
            chunks,
            since=opened or first(chunk.breaker_since for chunk in chunks),
            until=iso(until),
            error_code=code,
        )


def limits_reached(view: View) -> Iterator[Finding]:
    """Find chunks that wait for quota, or after a rate limit, by dependency."""
    for name, chunks in by_blocker(
        view, WaitReason.QUOTA, WaitReason.RATE_LIMIT
    ).items():
        until = first(chunk.retry_at for chunk in chunks)
        if name:
            message = f"Dependency {name} allows no more calls now."
        else:
            message = f"A dependency refused calls with {chunks[0].error_code}."
        shown = name or "DEPENDENCY"
        yield view.finding(
            "limit.reached", message, chunks, until=until, dependency=shown
        )


def equal_calls(view: View) -> Iterator[Finding]:
    """Find chunks that wait for an equal call of another chunk, by dependency."""
    for name, chunks in by_blocker(view, WaitReason.EQUAL_CALL).items():
        message = f"Equal calls to dependency {name} are in progress for other chunks."
        until = first(chunk.retry_at for chunk in chunks)
        yield view.finding("call.in_progress", message, chunks, until=until)


def tenant_capped(view: View) -> Iterator[Finding]:
    """Find due chunks that wait for a slot of their tenant."""
    tenant = view.at.job.ref.tenant
    used = slots_used(view, tenant)
    due = [chunk for chunk in view.due if not chunk.ref.is_join]
    if used and due:  # a join needs no slot
        message = f"The chunks of tenant {tenant} use its cap of {used} at once."
        yield view.finding("tenant.capped", message, due, tenant=tenant)


def slots_used(view: View, tenant: str) -> int:
    """Return the slots of a tenant's cap if workers use them all, otherwise 0."""
    quotas = view.at.fleet.quotas if view.at.fleet else {}
    quota = quotas.get(keys.tenant_limit(tenant))
    cap = quota.limits.concurrent if quota else None
    if quota is None or cap is None:
        return 0
    now = round(view.at.now * MICROS)
    used = sum(share.calls for share in quota.shares.values() if share.until > now)
    return cap if used >= cap else 0


def retries_waiting(view: View) -> Iterator[Finding]:
    """Find chunks that wait for their next attempt."""
    chunks = chunks_for(view, WaitReason.RETRY)
    # A chunk finds the end of a pause at its next attempt.
    paused = chunks_for(view, WaitReason.PAUSED)
    chunks += [each for each in paused if view.pause_of(each.blocked_on) is None]
    if chunks:
        codes = sorted({chunk.error_code for chunk in chunks} - {""})
        after = f" after {codes[0]}" if codes else ""
        more = f" and {len(codes) - 1} other codes" if len(codes) > 1 else ""
        message = f"Chunks wait for their next attempt{after}{more}."
        until = first(chunk.retry_at for chunk in chunks)
        yield view.finding("retry.waiting", message, chunks, until=until)


def timers_waiting(view: View) -> Iterator[Finding]:
    """Find chunks whose stage sleeps."""
    chunks = chunks_for(view, WaitReason.TIMER)
    if chunks:
        message = "Stages of the pipeline sleep until a moment of their own."
        until = first(chunk.retry_at for chunk in chunks)
        yield view.finding("timer.waiting", message, chunks, until=until)


def people_asked(view: View) -> Iterator[Finding]:
    """Find chunks whose stage waits for the answer of a person."""
    chunks = chunks_for(view, WaitReason.ANSWER)
    if chunks:
        names = sorted({chunk.question for chunk in chunks})
        more = f" and {len(names) - 1} other questions" if len(names) > 1 else ""
        message = f"Stages wait for the answer of a person: {names[0]}{more}."
        until = first(chunk.retry_at for chunk in chunks)
        yield view.finding("answer.waiting", message, chunks, until=until)


def keys_stopped(view: View) -> Iterator[Finding]:
    """Find chunks behind the dead letter of an earlier chunk of their order key."""
    chunks = chunks_for(view, WaitReason.ORDER_STOPPED)
    if chunks:
        number = len({chunk.order_key for chunk in chunks})
        what = "An order key is" if number == 1 else f"{number} order keys are"
        message = f"{what} stopped by a dead letter; its later chunks wait."
        since = view.at.letters.since
        yield view.finding("order.stopped", message, chunks, since=since)


def keys_in_order(view: View) -> Iterator[Finding]:
    """Find chunks that wait for an earlier chunk of their order key."""
    chunks = chunks_for(view, WaitReason.ORDER)
    if chunks:
        message = "Chunks wait for an earlier chunk of their order key."
        yield view.finding("order.waiting", message, chunks)


def aws_unavailable(view: View) -> Iterator[Finding]:
    """Find chunks that an outage of AWS deferred."""
    chunks = chunks_for(view, WaitReason.AWS)
    if chunks:
        message = f"AWS refused the workers of these chunks: {chunks[0].error_code}."
        until = first(chunk.retry_at for chunk in chunks)
        yield view.finding("aws.unavailable", message, chunks, until=until)


def leases_expiring(view: View) -> Iterator[Finding]:
    """Find chunks of workers that died, froze or were cut off."""
    chunks = view.abandoned
    if chunks:
        owners = sorted({chunk.claimed_by for chunk in chunks})
        more = f" and {len(owners) - NAMED} more" if len(owners) > NAMED else ""
        who = ", ".join(owners[:NAMED]) + more
        message = f"Worker {who} no longer renews its leases."
        if len(owners) > 1:
            message = f"Workers {who} no longer renew their leases."
        until = max(chunk.claim_expires_at for chunk in chunks)  # as text they sort
        yield view.finding("lease.expiring", message, chunks, until=until)


def chunks_unclaimed(view: View) -> Iterator[Finding]:
    """Find due chunks that a worker with free slots has not received."""
    overdue = [c for c in view.due if view.at.now - view.due_since(c) > CLAIM_S]
    since = min(map(view.due_since, overdue), default=view.at.now)
    free = [
        worker
        for worker in view.serving
        if not worker.is_full and moment(worker.reported_at) > since + LATE_S
    ]
    is_held = view.moves or slots_used(view, view.at.job.ref.tenant)
    if overdue and free and not is_held:
        message = f"Worker {free[0].worker} has free slots, but received no message."
        yield view.finding(
            "chunks.unclaimed",
            message,
            overdue,
            since=iso(since),
            until=first(chunk.redispatch_at for chunk in overdue),
        )


def join_open(view: View) -> Iterator[Finding]:
    """Find that the join waits, or that it failed."""
    join, job = view.at.join, view.at.job
    if join is None:
        return
    if job.status.ended and join.status is ChunkStatus.DEAD:
        message = f"The join failed with {join.error_code}."
        yield view.finding("join.failed", message, 1, since=join.settled_at)
    wait = wait_of(join, view.at.now)
    if wait is not None and wait.until:
        after = f" after {join.error_code}" if join.error_code else ""
        message = f"All chunks have ended; the join waits{after}."
        yield view.finding("join.waiting", message, 1, until=wait.until)


def cancel_unfinished(view: View) -> Iterator[Finding]:
    """Find a cancel whose chunks have not all ended."""
    job = view.at.job
    if job.status is JobStatus.CANCELLING:
        message = "The job is cancelled; its last chunks are ending."
        since = job.cancelled_at
        yield view.finding("cancel.unfinished", message, view.chunks, since=since)


# ── causes that do not hold the job up ────────────────────────────────────────


def progressing(view: View) -> Iterator[Finding]:
    """Find that workers run chunks, or that chunks are being written."""
    job = view.at.job
    if job.status.ended or job.status is JobStatus.CANCELLING:
        return
    if job.status is JobStatus.PAUSED and not view.running:
        return
    writing = job.status in {JobStatus.SUBMITTING, JobStatus.REOPENING}
    quiet_s = view.at.now - moment(job.progress_at)
    if view.running:
        what = "the join" if view.running[-1].ref.is_join else "chunks of the job"
        yield view.finding("job.progressing", f"Workers run {what}.", view.running)
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
    """Find open dead letters."""
    letters, ended = view.at.letters, view.at.job.status.ended
    if letters.number:
        name = "dead_letters.left" if ended else "dead_letters.open"
        few = "" if letters.complete else "At least "
        noun = "dead letter is" if letters.number == 1 else "dead letters are"
        message = f"{few}{letters.number} {noun} open."
        if letters.in_doubt:
            job = view.at.job.ref.job
            message += (
                f" {letters.in_doubt} died of an effect in doubt: before a redrive "
                f"resolve what `piecework effects list {job}` lists."
            )
        message += climbed(letters.climbs)
        yield view.finding(name, message, letters.number, since=letters.since)


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


def limits_used(view: View) -> Iterator[Finding]:
    """Find limits without a free start, of dependencies that the workers call."""
    fleet, now = view.at.fleet, round(view.at.now * MICROS)
    for name, quota in fleet.quotas.items() if fleet and view.running else ():
        next_start = quota.next_start(now)
        called = any(name in worker.dependencies for worker in view.serving)
        if called and next_start - now > AHEAD / 2:
            message = f"The limits of dependency {name} are fully used."
            until = iso(next_start / MICROS)
            yield view.finding("limit.used", message, view.running, until=until)


def webhooks_failed(view: View) -> Iterator[Finding]:
    """Find webhooks of which an event failed finally."""
    for hook in view.at.webhooks or ():
        if hook.failed_at and hook.pipeline in ("", view.at.job.pipeline):
            message = f"Webhook {hook.name} did not accept an event: {hook.last_error}."
            since = hook.failed_at
            yield view.finding(
                "webhook.failed", message, 0, since=since, webhook=hook.name
            )


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


Cause = Callable[[View], Iterator[Finding]]

#: Every cause.
CAUSES: Final[tuple[Cause, ...]] = (
    submit_unfinished,
    job_paused,
    workers_missing,
    newer_needed,
    dependencies_paused,
    breakers_open,
    limits_reached,
    equal_calls,
    tenant_capped,
    retries_waiting,
    people_asked,
    timers_waiting,
    keys_stopped,
    aws_unavailable,
    leases_expiring,
    chunks_unclaimed,
    join_open,
    cancel_unfinished,
    progressing,
    letters_open,
    keys_in_order,
    limits_used,
    webhooks_failed,
    fleet_unreadable,
    ended,
)


# ── chunks by what they wait for ──────────────────────────────────────────────


def chunks_for(view: View, reason: WaitReason) -> list[Chunk]:
    """Return the chunks that wait for a reason."""
    return [chunk for chunk, wait in view.waits if wait.reason is reason]


def by_blocker(view: View, *reasons: WaitReason) -> dict[str, list[Chunk]]:
    """Return the chunks that wait for these reasons, by the dependency of each."""
    found = defaultdict(list)
    for reason in reasons:
        for chunk in chunks_for(view, reason):
            found[chunk.blocked_on].append(chunk)
    return found


def first(times: Iterable[str]) -> str:
    """Return the earliest of some times; the empty text without any."""
    return min(filter(None, times), default="")
