"""Watch a job until it ends: poll, report progress, and hint at a missing worker."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from piecework.domain import keys
from piecework.domain.budget import NANO
from piecework.domain.call_usage import CallUsage
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.moments import moment
from piecework.domain.outcome import UNTIL_TOLD
from piecework.domain.pause import Pause
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.errors import UsageError, WaitTimeoutError
from piecework.reading import Reading
from piecework.store.completion import all_chunks, read_chunk
from piecework_orchestrator.reading.calls_so_far import all_models
from piecework_orchestrator.reading.job_documents import (
    Document,
    explain,
    job_facts,
    pause_command,
    require_job,
    status_reason,
)
from piecework_orchestrator.reading.job_list import MAX_COUNTED_CHUNKS
from piecework_orchestrator.reading.large_jobs import (
    Places,
    count_ended,
    find_places,
)
from piecework_orchestrator.reading.numbers import format_used
from piecework_orchestrator.reading.samples import read_sample
from piecework_orchestrator.reading.times import format_clock

#: Seconds between two polls of a small job. A large job is polled less often, so that
#: watching costs about the same whatever the size.
POLL_S = 0.5
MAX_POLL_S = 15.0
#: Seconds between two explanations of the job; and without an ended chunk, after which
#: the watcher tells the first finding.
EXPLAIN_AFTER_S = 10.0
#: A longer wait is shown: it explains why the job makes no progress.
LONG_WAIT_S = 10.0
#: Seconds between two lines of progress, so that a log stays readable.
LINE_EVERY_S = 2.0


@dataclass(slots=True)
class ChunkCounts:
    """The chunks of a job at one poll.

    Attributes:
        by_status: Chunks by status; of a large job only those known to have ended.
        active: Whether a worker holds a chunk, or a chunk waits for its next attempt.
        longest_wait_s: Seconds until each waiting chunk may start again, of those that
            wait for a time.
        places: Of a large job: where its chunks are.
        used: What the calls of the chunks used so far; of a large job not read here.
    """

    by_status: Counter[str] = field(default_factory=Counter)
    active: bool = False
    longest_wait_s: float = 0.0
    places: Places | None = None
    used: CallUsage = field(default_factory=all_models)

    def add(self, chunk: Chunk, now: float) -> None:
        """Count a chunk."""
        self.by_status[str(chunk.status)] += 1
        self.used.merge(chunk.usage_so_far)
        self.active = self.active or is_active(chunk, now)
        waits = chunk.status is ChunkStatus.WAITING and chunk.retry_at
        if waits and chunk.blocked_on not in UNTIL_TOLD:
            wait_s = moment(chunk.retry_at) - now
            self.longest_wait_s = max(self.longest_wait_s, wait_s)

    @property
    def ended(self) -> int:
        """The number of chunks that have ended."""
        counts = self.by_status.items()
        return sum(n for status, n in counts if ChunkStatus(status).ended)


@dataclass(frozen=True, slots=True)
class ProgressSnapshot:
    """A job at one poll.

    Attributes:
        ended: The number of chunks that have ended.
        counts: Chunks by status; of a large job only those known to have ended.
        elapsed: Seconds since the watch began.
        finish_s: P50 and P90 of the seconds until the chunks have ended; None: unknown.
        longest_wait_s: Seconds until each waiting chunk may start again.
        used: What the calls used so far, those of running chunks included; nothing is
            known of a job that has ended.
        sampled: By how many chunks that is estimated; 0: by all.
    """

    job: Job
    ended: int
    counts: Counter[str]
    elapsed: float
    finish_s: tuple[float, float] | None = None
    longest_wait_s: float = 0.0
    used: CallUsage = field(default_factory=CallUsage)
    sampled: int = 0

    @property
    def dead(self) -> int:
        """The number of dead chunks among those that were counted."""
        return self.counts[ChunkStatus.DEAD]

    @property
    def details(self) -> str:
        """The status, the counts, the calls, and the time left or the longest wait."""
        running = self.counts[ChunkStatus.RUNNING]
        waiting = self.counts[ChunkStatus.WAITING]
        pause = self.job.pause
        words = [f"{self.job.status}{f' ({pause.code})' if pause else ''}"]
        words += [f"{running} running"] if running else []
        words += [f"{waiting} waiting"] if waiting else []
        words += [f"{self.dead} dead"] if self.dead else []
        paid = self.used.total("paid")
        tokens = paid["tokens_in"] + paid["tokens_out"]
        used = format_used(paid["calls"], tokens, paid["nano_usd"] / NANO)
        words += [f"about {used[0]}", *used[1:]] if self.sampled and used else used
        p50_s, p90_s = self.finish_s or (0.0, 0.0)
        if self.longest_wait_s > max(p50_s, LONG_WAIT_S):
            words.append(f"longest wait {format_clock(self.longest_wait_s)}")
        elif p90_s and not self.job.status.ended:
            words.append(f"ends in {format_clock(p50_s)} to {format_clock(p90_s)}")
        return "  ".join(words)

    def __str__(self) -> str:
        """Return the progress as a line."""
        return (
            f"{self.job.ref.job} {self.ended}/{self.job.chunks} chunks {self.details}"
        )


def line_writer(
    write: Callable[[str], None], clock: Callable[[], float] = time.monotonic
) -> Callable[[ProgressSnapshot], None]:
    """Return a callback that writes a line if something changed, but not too often."""
    last, at = "", -LINE_EVERY_S

    def write_changed(snapshot: ProgressSnapshot) -> None:
        nonlocal last, at
        line, now, ended = str(snapshot), clock(), snapshot.job.status.ended
        if line != last and (ended or now - at >= LINE_EVERY_S):
            write(line)
            last, at = line, now

    return write_changed


@dataclass(slots=True)
class Watcher:
    """The callbacks of a watch; each remark is made once."""

    on_progress: Callable[[ProgressSnapshot], None]
    #: Called at each poll, the last time when the job has ended.
    on_poll: Callable[[Job], Awaitable[None]] | None = None
    remark: Callable[[str], None] = lambda _: None
    #: The remark for when no worker claims a chunk.
    no_worker_hint: str = "no worker seems to be running"
    _made: set[str] = field(default_factory=set)

    def remark_once(self, text: str) -> None:
        """Make a remark unless it is empty or was made before."""
        if text and text not in self._made:
            self._made.add(text)
            self.remark(text)


async def watch(
    rt: Reading,
    job: str,
    watcher: Watcher,
    timeout_s: float | None = None,
    poll_s: float = POLL_S,
) -> Job:
    """Return the job when it has ended; `poll_s`: seconds between polls if it is small.

    Raises:
        NotFoundError: `job.record.not_found`.
        WaitTimeoutError: `cli.wait.timeout`; the job continues.
        UsageError: `run.state.idle`: it is in a state file, and its run has ended.
    """
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            return await poll_until_ended(rt, job, watcher, poll_s)
    except TimeoutError:
        if not limit.expired():
            raise
        message = f"Job {job} has not ended after {timeout_s:g} s; it continues."
        step = f"`piecework jobs watch {job}`"
        raise WaitTimeoutError(message, next_step=step) from None


async def poll_until_ended(
    rt: Reading, job: str, watcher: Watcher, poll_s: float
) -> Job:
    """Poll until the job has ended, and report each snapshot."""
    loop = asyncio.get_running_loop()
    began = explained_at = changed_at = loop.time()
    last, use = -1, CallsUse()
    finish: tuple[float, float] | None = None
    hint = ""
    while True:
        found = await require_job(rt, job)
        counts = await count_chunks(rt, found)
        now, ended = loop.time(), counts.ended
        if ended != last or found.pause is not None:
            changed_at, last = now, ended
        if not found.status.ended and now - explained_at >= EXPLAIN_AFTER_S:
            explained = await explain(rt, found)
            explained_at, finish = now, finish_of(explained)
            if now - changed_at >= EXPLAIN_AFTER_S:
                hint = describe_finding(explained["findings"][0], watcher)
        await use.read(rt, found, counts, now)
        left = shortened(finish, now - explained_at)
        wait_s = counts.longest_wait_s
        watcher.on_progress(
            ProgressSnapshot(
                *(found, ended, counts.by_status, now - began, left, wait_s),
                *(use.used, use.sampled),
            )
        )
        if watcher.on_poll is not None:
            await watcher.on_poll(found)
        if found.status.ended:
            return found
        require_process(rt, found, ended)
        watcher.remark_once(hint)
        if found.status is JobStatus.CANCELLING:
            watcher.remark_once(describe_cancel(found))
        if found.pause is not None:
            watcher.remark_once(describe_pause(found, found.pause))
        elif not counts.active and (reason := status_reason(found, rt.clock())):
            watcher.remark_once(f"notice {reason['code']}: {reason['message']}")
        await asyncio.sleep(poll_interval_s(found.chunks, poll_s))


def require_process(rt: Reading, job: Job, ended: int) -> None:
    """Refuse to wait for a job of a state file: no process works on it meanwhile.

    Raises:
        UsageError: `run.state.idle`.
    """
    if line := rt.endpoint.run_line:
        done = f"{ended:,} of {job.chunks:,} chunks have ended"
        message = f"No process works on job {job.ref.job}: {done}."
        raise UsageError(message, code="run.state.idle", next_step=line)


def describe_pause(job: Job, pause: Pause) -> str:
    """Return why a job is paused, and the command that ends the pause."""
    why = f"paused by {pause.actor}: {pause.code}: {pause.why}"
    return f"{why}; next: {pause_command(job_facts(job, 0.0))}"


def finish_of(explained: Document) -> tuple[float, float] | None:
    """Return P50 and P90 of an explanation; None: unknown."""
    finish = explained["finish"]
    return None if finish is None else (finish["p50_s"], finish["p90_s"])


def shortened(
    finish: tuple[float, float] | None, seconds: float
) -> tuple[float, float] | None:
    """Return what is left of an estimate after some seconds."""
    if finish is None:
        return None
    return max(0.0, finish[0] - seconds), max(0.0, finish[1] - seconds)


def describe_finding(finding: Document, watcher: Watcher) -> str:
    """Return a finding as a line; the caller knows best how to start a worker."""
    if finding["code"] == "workers.none":
        return watcher.no_worker_hint
    if finding["code"] == "job.progressing":
        return ""
    return f"{finding['code']}: {finding['message']}; next: {finding['next']}"


def describe_cancel(job: Job) -> str:
    """Return the actor and reason of a cancel, and whether it compensates."""
    by = ": ".join(filter(None, (job.cancelled_by, job.cancel_reason)))
    effects = "compensated" if job.compensates_on_cancel else "kept"
    return f"{job.cancel_code}: by {by}; effects of open chunks are {effects}"


async def count_chunks(rt: Reading, job: Job) -> ChunkCounts:
    """Count the chunks of a job."""
    if job.status.ended and job.outcomes is not None:
        return ChunkCounts(Counter(job.outcomes))
    now, counts = rt.clock(), ChunkCounts()
    if job.chunks > MAX_COUNTED_CHUNKS:
        counts.places = await find_places(rt, job)
        ended = await count_ended(rt, job, counts.places)
        counts.by_status[ChunkStatus.SUCCEEDED] = ended
        counts.active = bool(ended)
    else:
        async for chunk in all_chunks(rt.table, job.ref, job.chunks):
            counts.add(chunk, now)
    if job.status is JobStatus.FINALIZING:
        ref = job.ref.chunk(keys.JOIN_CHUNK)
        join = await read_chunk(rt.table, ref)
        counts.active = join is not None and is_active(join, now)
    return counts


@dataclass(slots=True)
class CallsUse:
    """What the calls of a job used; of a large one read every ten seconds.

    Attributes:
        sampled: By how many chunks that is estimated; 0: by all.
    """

    used: CallUsage = field(default_factory=CallUsage)
    sampled: int = 0
    _next: float = 0.0

    async def read(
        self, rt: Reading, job: Job, counts: ChunkCounts, now: float
    ) -> None:
        """Take what was counted; of a large job read a sample, if it is time."""
        places = counts.places
        if places is None:
            self.used, self.sampled = counts.used, 0
        elif now >= self._next:
            sample = await read_sample(rt, job, [*places.full, *places.begun])
            self.used = sample.calls.usage
            self.sampled = 0 if sample.exact else sample.number
            self._next = now + EXPLAIN_AFTER_S


def is_active(chunk: Chunk, now: float) -> bool:
    """Return whether a chunk has a live lease, or waits for its next attempt."""
    until = chunk.claim_expires_at or chunk.retry_at
    open_ = chunk.status in {ChunkStatus.RUNNING, ChunkStatus.WAITING}
    return open_ and bool(until) and moment(until) > now


def poll_interval_s(chunks: int, poll_s: float = POLL_S) -> float:
    """Return the seconds until the next poll."""
    return min(MAX_POLL_S, poll_s * max(1.0, chunks / MAX_COUNTED_CHUNKS))
