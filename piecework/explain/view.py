"""What the causes need of a situation: its chunks by state and wait, its workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.moments import iso, moment
from piecework.domain.rows import WorkerRow, worker_of
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.explain.findings import FINDINGS, Finding
from piecework.explain.situation import Situation
from piecework.explain.waiting import Wait, WaitReason, wait_of

#: Seconds within which a worker with a free slot claims a chunk that is due.
CLAIM_S: Final = 30.0
#: The least part of a lease that is left while its worker lives. The worker renews the
#: lease after each third of it, so two thirds are left. The difference is margin.
LEFT_OF_LEASE: Final = 0.5
#: Workers that a message names.
NAMED: Final = 3
#: The waits that no worker ends. A chunk behind another one waits as that one does.
AT_REST: Final = {
    WaitReason.TIMER,
    WaitReason.BATCH,
    WaitReason.ANSWER,
    WaitReason.CHILD,
    WaitReason.ORDER_STOPPED,
}


@dataclass(frozen=True)
class View:
    """A situation, and what several causes need of it."""

    at: Situation

    @cached_property
    def chunks(self) -> tuple[Chunk, ...]:
        """The chunks that have not ended, with the join."""
        join = self.at.join
        open_ = join is not None and not join.status.ended
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
    def working(self) -> list[Chunk]:
        """The running chunks that do not wait for a request of a lost worker."""
        waiting = {each.chunk.ref for each in self.at.in_flight}
        return [chunk for chunk in self.running if chunk.ref not in waiting]

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
        if self.at.run_line:  # a wait that is over needs the run, too
            return not (status.ended or paused)
        return not (status.ended or paused or self.running or self.all_wait)

    @cached_property
    def moves(self) -> bool:
        """Whether a worker may have claimed or ended a chunk of the job a moment ago.

        Between two chunks of a worker, none of them runs. Of a large job that has
        begun, the groups in which chunks run may not be in the sample.
        """
        open_, times = self.at.open, self.acts
        if not open_.exact and (times or open_.full_groups):
            return True
        return self.at.now - max(times, default=0.0) < CLAIM_S

    @cached_property
    def acts(self) -> list[float]:
        """The times at which workers claimed or ended a chunk of the job."""
        times = self.at.open.times
        return [*times.claimed, *(end for _, end in times.spans)]

    @cached_property
    def all_wait(self) -> bool:
        """Whether each open chunk waits for what no worker of the job ends."""
        reasons = {chunk.ref: wait.reason for chunk, wait in self.waits}
        join = self.at.join
        if join is not None and (wait := wait_of(join, self.at.now)) is not None:
            reasons[join.ref] = wait.reason
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

    def owner_of(self, chunk: Chunk) -> WorkerRow | None:
        """Return the last report of the worker that owns a chunk; None: it has none."""
        return self.owners.get(worker_of(chunk.claimed_by))

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
        return moment(max(since, chunk.lease_released_at, job.resumed_at))

    def is_abandoned(self, chunk: Chunk) -> bool:
        """Return whether the owner of a RUNNING chunk missed a renewal or a report.

        If it renewed the lease after the report was due, only the report failed.
        """
        if self.at.run_line:
            return True
        owner, now = self.owner_of(chunk), self.at.now
        renewed = self.renewed_at(chunk)
        if owner and owner.is_late(now) and renewed <= moment(owner.due_at):
            return True
        return now - renewed > self.lease_of(chunk) * (1 - LEFT_OF_LEASE)

    def renewed_at(self, chunk: Chunk) -> float:
        """Return when the owner of a RUNNING chunk renewed its lease; 0: unknown."""
        until = chunk.claim_expires_at
        return moment(until) - self.lease_of(chunk) if until else 0.0

    def lease_of(self, chunk: Chunk) -> float:
        """Return the seconds of the lease of a RUNNING chunk."""
        owner = self.owner_of(chunk)
        return self.at.lease_s if owner is None else owner.lease_s

    def pause_of(self, dependency: str) -> str | None:
        """Return why a dependency is paused; empty: unknown; None: it is not."""
        if self.at.fleet is None:
            return ""
        quota = self.at.fleet.quotas.get(dependency)
        return quota.paused or None if quota else None

    def may_serve(self, worker: WorkerRow) -> bool:
        """Return whether a worker may run the job, and has its queue."""
        job = self.at.job
        has_queue = (job.queue or keys.DEFAULT_QUEUE) in worker.queues
        has_pipeline = job.pipeline in worker.pipelines
        return has_queue and has_pipeline and self.runs_version(worker)

    def runs_version(self, worker: WorkerRow) -> bool:
        """Return whether a worker has the code version that the job is pinned to."""
        job = self.at.job
        has = worker.code_versions.get(job.pipeline, "")
        return job.pinned_to in {"", has}

    def is_live(self, worker: WorkerRow) -> bool:
        """Return whether a worker takes chunks, as far as its reports show.

        A lease that is not renewed shows a death before the next report is late. An
        idle worker reports rarely. If a chunk has been due for long since its last
        report, it may be dead. Workers of other pipelines on its queue receive the
        message, too, and give it back. Then the time proves nothing.
        """
        if self.at.run_line:
            return False
        if not worker.is_live(self.at.now) or worker.worker in self.silent:
            return False
        if worker.in_progress or not self.may_serve(worker):
            return True
        since = min(map(self.due_since, self.due), default=self.at.now)
        ignored = self.at.now - since > CLAIM_S
        return self.is_queue_shared or not (
            ignored and moment(worker.reported_at) < since
        )

    @property
    def is_queue_shared(self) -> bool:
        """Whether a worker that cannot run the job receives its messages, too."""
        return any(self.passes_on(each) for each in self.at.workers or ())

    def passes_on(self, worker: WorkerRow) -> bool:
        """Return whether a worker receives messages of the job that it cannot run."""
        job = self.at.job
        receives = (job.queue or keys.DEFAULT_QUEUE) in worker.queues
        return receives and not self.may_serve(worker) and worker.is_live(self.at.now)

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
