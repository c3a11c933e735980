"""The context of a reconciler's pass."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from math import inf
from operator import itemgetter

from piecework.aws.queue import BATCH, Message
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.moments import moment
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.jobs.fan_out import Progress
from piecework.reconciler.liveness import LeaseObserver
from piecework.runtime import Runtime
from piecework.settings import Settings

# ── longest time that a chunk has been due without a worker ───────────────────
#
# A chunk is due when its lease has expired, its delay is over, or its message was sent.
# The reconciler reports the chunks that it reads anyway. So the value of a large job is
# as old as its last pass.


@dataclass(slots=True)
class Overdue:
    """The longest overdue chunk of each job at the time of its last pass.

    The time after the pass does not count, because leases are renewed meanwhile and a
    large job is read rarely.
    """

    _longest: dict[JobRef, tuple[str, float]] = field(default_factory=dict)

    def forget(self, ref: JobRef) -> None:
        """Drop a job that is read again or has ended."""
        self._longest.pop(ref, None)

    def note(self, job: Job, chunk: Chunk, now: float) -> None:
        """Record a chunk that was read."""
        self.note_since(job, overdue_since(job, chunk), now)

    def note_since(self, job: Job, since: str, now: float) -> None:
        """Record that a chunk of a job is due since then; empty: it is not."""
        if since and since < self._longest.get(job.ref, ("~", 0.0))[0]:
            # A malformed time fails the pass of this job only.
            self._longest[job.ref] = since, max(0.0, now - moment(since))

    def seconds(self) -> float:
        """Return the longest time in seconds; 0 without an overdue chunk."""
        return max((waited for _, waited in self._longest.values()), default=0.0)


def overdue_since(job: Job, chunk: Chunk) -> str:
    """Return since when a chunk is due without a worker; empty: it has ended."""
    if chunk.status.ended:
        return ""
    if chunk.status is ChunkStatus.RUNNING:
        return chunk.claim_expires_at
    if chunk.retry_at:
        return chunk.retry_at
    if chunk.status is ChunkStatus.WAITING and chunk.claimed_at:
        return chunk.claimed_at
    return job.dispatched_at


# ── chunks that a worker drew from a backlog and did not claim ────────────────


def draw_lost_s(settings: Settings) -> float:
    """Return after how many seconds a drawn chunk without a claim counts as lost.

    A worker claims a chunk as soon as it has drawn it. After half a lease, a chunk of a
    killed worker is sent before the leases of its other chunks expire.
    """
    return settings.lease_s / 2


@dataclass(slots=True)
class DrawnChunks:
    """How far the backlog of each job was drawn at the passes that this process saw."""

    _seen: dict[JobRef, list[tuple[float, int]]] = field(default_factory=dict)
    _left: dict[JobRef, int] = field(default_factory=dict)

    @property
    def left(self) -> int:
        """The chunks of all backlogs."""
        return sum(self._left.values())

    def note(self, job: Job, next_chunk: int, now: float, lost_s: float) -> None:
        """Record the next chunk of a job's backlog at a time of the loop."""
        seen = self._seen.setdefault(job.ref, [])
        long_ago = [each for each in seen if each[0] <= now - lost_s]
        self._seen[job.ref] = [
            *long_ago[-1:],
            *seen[len(long_ago) :],
            (now, next_chunk),
        ]
        self._left[job.ref] = job.chunks - next_chunk

    def next_of(self, job: Job) -> int:
        """Return the first chunk of a job that no worker has drawn yet."""
        seen = self._seen.get(job.ref)
        return seen[-1][1] if seen else job.chunks

    def knows(self, ref: JobRef) -> bool:
        """Return whether the job has, or had, a backlog."""
        return ref in self._seen

    def lost_at(self, chunk: Chunk, lost_s: float) -> float:
        """Return when a chunk without a claim counts as lost; infinite: not drawn."""
        seen = self._seen[chunk.ref.of]
        return min((at for at, upto in seen if chunk.ref.chunk < upto), default=inf) + (
            lost_s
        )

    def forget(self, ref: JobRef) -> None:
        """Drop a job that has ended."""
        self._seen.pop(ref, None)
        self._left.pop(ref, None)


# ── chunks whose worker may be gone before the next pass ──────────────────────


@dataclass(slots=True)
class Rechecks:
    """When to look again at chunks that a pass left to the worker that has them.

    A pass of a large job comes late, so these chunks are read alone.

    Attributes:
        some: Set while there are any.
    """

    some: asyncio.Event = field(default_factory=asyncio.Event)
    _at: dict[JobRef, dict[ChunkRef, float]] = field(default_factory=dict)

    def note(self, ref: ChunkRef, at: float) -> None:
        """Look at a chunk again at a time of the loop."""
        self._at.setdefault(ref.of, {})[ref] = at
        self.some.set()

    def next_at(self) -> float:
        """Return when the first look is due."""
        return min((min(each.values()) for each in self._at.values()), default=inf)

    def take(self, now: float, most: int) -> dict[JobRef, list[ChunkRef]]:
        """Remove and return the chunks that are due, those longest due first."""
        due = [
            (at, ref)
            for chunks in self._at.values()
            for ref, at in chunks.items()
            if at <= now
        ]
        taken: dict[JobRef, list[ChunkRef]] = {}
        for _, ref in sorted(due, key=itemgetter(0))[:most]:
            taken.setdefault(ref.of, []).append(ref)
            self.forget_chunk(ref)
        return taken

    def forget_chunk(self, ref: ChunkRef) -> None:
        """Drop a chunk that needs no look."""
        chunks = self._at.get(ref.of, {})
        chunks.pop(ref, None)
        if not chunks:
            self.forget(ref.of)

    def forget(self, ref: JobRef) -> None:
        """Drop the chunks of a job that has ended."""
        self._at.pop(ref, None)
        if not self._at:
            self.some.clear()


# ── jobs that make no progress ────────────────────────────────────────────────

#: The statuses in which a job is expected to make progress. A paused job waits for an
#: operator, and a reconciler finishes a submit and a retry.
ACTING = frozenset({JobStatus.RUNNING, JobStatus.FINALIZING, JobStatus.CANCELLING})


@dataclass(slots=True)
class Activity:
    """What the last pass saw of a job.

    Attributes:
        open: The chunks that have not ended, also those of quiet groups.
        runs: Whether a worker has a valid lease on one of them.
        blocked_on: What chunks wait for: dependencies, and other causes of a wait.
        waiting_long: Those of the open chunks that wait in the index of long waits.
    """

    job: Job
    open: int = 0
    runs: bool = False
    blocked_on: set[str] = field(default_factory=set)
    waiting_long: int = 0

    def note(self, chunk: Chunk, now: float) -> None:
        """Record a chunk that was read."""
        self.open += not chunk.status.ended
        if chunk.status is ChunkStatus.RUNNING and chunk.claim_expires_at:
            self.runs = self.runs or moment(chunk.claim_expires_at) > now
        elif chunk.status is ChunkStatus.WAITING:
            self.blocked_on.add(chunk.blocked_on)
            self.waiting_long += bool(chunk.due_at) and moment(chunk.due_at) > now

    @property
    def could_go_on(self) -> bool:
        """Whether an open chunk waits for no moment and no person."""
        return self.open > self.waiting_long

    @property
    def is_idle(self) -> bool:
        """Whether chunks could go on, and no worker runs one."""
        return self.could_go_on and not self.runs and self.job.status in ACTING

    @property
    def state(self) -> str:
        """What stays the same while the job makes no progress."""
        job = self.job
        return f"{job.gen} {job.status} {job.dispatched_at} {self.open}"


# ── groups whose open chunks all wait in the index of long waits ──────────────

#: Seconds after which a quiet group is read again, at the latest.
QUIET_S = 3_600.0


@dataclass(slots=True)
class QuietGroups:
    """The groups of each job that need no read before their first chunk is due.

    The index wakes their chunks. A lost entry is found at the time of its chunk.
    """

    #: The jobs of which no open chunk needs a read.
    jobs: set[JobRef] = field(default_factory=set)
    #: Until when each group is quiet, and its open chunks.
    _until: dict[tuple[JobRef, int], dict[int, tuple[float, int]]] = field(
        default_factory=dict
    )

    def of(self, job: Job, now: float) -> dict[int, int]:
        """Return the quiet groups of a job at a time, with their open chunks."""
        groups = self._until.get((job.ref, job.gen), {})
        return {group: open_ for group, (until, open_) in groups.items() if until > now}

    def note(self, job: Job, group: int, due_at: str, open_: int, now: float) -> None:
        """Record a group that was read; no `due_at`: not all its chunks wait long."""
        groups = self._until.setdefault((job.ref, job.gen), {})
        if due_at:
            groups[group] = min(moment(due_at), now + QUIET_S), open_
        else:
            groups.pop(group, None)

    def wake(self, ref: JobRef, group: int) -> None:
        """Read a group again: a chunk of it has left the index."""
        self.jobs.discard(ref)
        for (job, _), groups in self._until.items():
            if job == ref:
                groups.pop(group, None)

    def forget(self, ref: JobRef) -> None:
        """Drop a job that has ended, or is in another state."""
        self.jobs.discard(ref)
        for key in [key for key in self._until if key[0] == ref]:
            del self._until[key]


async def refuse_chunk(ref: ChunkRef, gen: int) -> bool:
    """Refuse every chunk: the default without a worker in this process."""
    del ref, gen
    return False


@dataclass(frozen=True, slots=True)
class PassContext:
    """The deployment, the observations of earlier passes, and the local worker.

    Attributes:
        offer: Offers a chunk to the worker of this process; returns whether it took it.
        progress: Reports the progress of a submit that this pass completes.
        released: The groups with a chunk whose owner has died, since they were counted.
        activity: What the last pass of this process saw of each active job.
        units: About the read units of the last pass over each running job.
    """

    rt: Runtime
    offer: Callable[[ChunkRef, int], Awaitable[bool]] = refuse_chunk
    leases: LeaseObserver = field(default_factory=LeaseObserver)
    overdue: Overdue = field(default_factory=Overdue)
    drawn: DrawnChunks = field(default_factory=DrawnChunks)
    rechecks: Rechecks = field(default_factory=Rechecks)
    released: dict[JobRef, set[int]] = field(default_factory=dict)
    activity: dict[JobRef, Activity] = field(default_factory=dict)
    units: dict[JobRef, float] = field(default_factory=dict)
    quiet: QuietGroups = field(default_factory=QuietGroups)
    progress: Progress = lambda *_: None
    #: The messages that are not sent yet, by the queue of their job.
    _unsent: dict[str, list[Message]] = field(default_factory=lambda: defaultdict(list))

    def note(self, chunk: Chunk) -> None:
        """Record that a chunk was read, and whether a worker runs it."""
        seen = self.activity.get(chunk.ref.of)
        if seen is not None:
            seen.note(chunk, self.rt.clock())

    def note_plan(self, job: Job, units: float, *, undrawn: int) -> None:
        """Record what this pass reads, and the chunks that no worker has drawn yet."""
        self.units[job.ref] = units
        if not undrawn:
            return
        self.overdue.note_since(job, job.dispatched_at, self.rt.clock())
        seen = self.activity.get(job.ref)
        if seen is not None:
            seen.open += undrawn

    def note_waiting_long(self, ref: JobRef, chunks: int) -> None:
        """Record the open chunks of the groups that this pass does not read."""
        seen = self.activity.get(ref)
        if seen is not None:
            seen.open += chunks
            seen.waiting_long += chunks

    async def dispatch(self, job: Job, ref: ChunkRef, gen: int) -> None:
        """Give a chunk of a job to the local worker; otherwise queue its message."""
        if await self.offer(ref, gen):
            return
        unsent = self._unsent[job.queue]
        unsent.append(Message.about(ref, gen))
        if len(unsent) >= BATCH:
            await self.send()

    async def send(self) -> None:
        """Send the queued messages.

        The record of each chunk has the time of its next redispatch. So a reconciler
        that dies before this request loses none of them.
        """
        unsent = dict(self._unsent)
        self._unsent.clear()
        for queue, messages in unsent.items():
            await self.rt.work.send(messages, to=queue)
