"""Watch a job until it ends: look, tell, wait; and notice when nobody works on it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from orchestrator.inspector import LOOKED_AT, notice, require_job
from piecework import keys
from piecework.errors import WaitTimeoutError
from piecework.model import Chunk, ChunkStatus, Job, JobStatus, moment
from piecework.runtime import Runtime
from piecework.store.census import all_chunks

#: Seconds between two looks at a small job; a large one is looked at less often, so
#: that watching costs about as much whatever the size.
PAUSE_S = 0.5
LARGEST_PAUSE_S = 15.0
#: Seconds without a claim after which a worker seems to be missing.
PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Look:
    """A job as it stood.

    Attributes:
        counts: Chunks by status; of a large job only those known to have ended.
        claimed: Whether a chunk is in hand, or waits for its next attempt.
        elapsed: Seconds since the watch began.
        eta: Seconds that the rest will take at the rate so far; None: no telling.
    """

    job: Job
    settled: int
    counts: Counter[str]
    claimed: bool
    elapsed: float
    eta: float | None

    @property
    def dead(self) -> int:
        """How many chunks are dead, as far as they were counted."""
        return self.counts[ChunkStatus.DEAD]


@dataclass(slots=True)
class Watcher:
    """Who is told what; each remark is made once."""

    told: Callable[[Look], None]
    #: Asked at each look to look further; the last time once the job has ended.
    looked: Callable[[Job], Awaitable[None]] | None = None
    remark: Callable[[str], None] = lambda _: None
    #: What to say when no worker seems to be there.
    hint: str = "no worker seems to be running"
    _said: set[str] = field(default_factory=set)

    def once(self, text: str) -> None:
        """Make a remark unless it was made."""
        if text not in self._said:
            self._said.add(text)
            self.remark(text)


async def watch(
    rt: Runtime, job: str, watcher: Watcher, timeout_s: float | None = None
) -> Job:
    """Return the job once it has ended.

    Raises:
        NotFoundError: `job.record.not_found`.
        WaitTimeoutError: `cli.wait.timeout`; the job goes on.
    """
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            return await watch_to_the_end(rt, job, watcher)
    except TimeoutError:
        if not limit.expired():
            raise
        message = f"Job {job} has not ended after {timeout_s:g} s; it goes on."
        step = f"`piecework jobs watch {job}`"
        raise WaitTimeoutError(message, next_step=step) from None


async def watch_to_the_end(rt: Runtime, job: str, watcher: Watcher) -> Job:
    """Look until the job has ended, and tell of each look."""
    loop = asyncio.get_running_loop()
    began = last_claim = loop.time()
    first = last = -1
    while True:
        found = await require_job(rt, job)
        counts, claimed = await count(rt, found)
        now = loop.time()
        settled = sum(n for status, n in counts.items() if ChunkStatus(status).terminal)
        first = settled if first < 0 else first
        eta = remaining(found.chunks - settled, settled - first, now - began)
        look = Look(found, settled, counts, claimed, now - began, eta)
        watcher.told(look)
        if watcher.looked is not None:
            await watcher.looked(found)
        if found.status.ended:
            return found
        if found.status is JobStatus.CANCELLING:
            watcher.once(stopping(found))
        if not claimed and (told := notice(found)):
            watcher.once(f"notice {told['code']}: {told['message']}")
        if claimed or settled != last:
            last_claim, last = now, settled
        elif now - last_claim >= PATIENCE_S:
            watcher.once(watcher.hint)
        await asyncio.sleep(pause(found.chunks))


def stopping(job: Job) -> str:
    """Say who stops a job, why, and what becomes of what was done."""
    item = job.item
    by = f"{item.get('cancelled_by', '')}: {item.get('cancel_reason', '')}"
    done = (
        "what was done is being undone"
        if job.compensates_on_cancel
        else "what was done stays"
    )
    return f"{item.get('cancel_code', 'cancelled')}: by {by}; {done}"


async def count(rt: Runtime, job: Job) -> tuple[Counter[str], bool]:
    """Count a job's chunks by status, and say whether one is in hand."""
    if job.status.ended and "outcomes" in job.item:
        return Counter(job.item["outcomes"]), False
    now = rt.clock()
    counts: Counter[str] = Counter()
    if job.chunks > LOOKED_AT:
        counts[ChunkStatus.SUCCEEDED] = await rt.tallies.settled(job.ref, job.chunks)
        claimed = bool(counts.total())
    else:
        claimed = False
        async for chunk in all_chunks(rt.table, job.ref, job.chunks):
            counts[str(chunk.status)] += 1
            claimed = claimed or in_hand(chunk, now)
    if job.status is JobStatus.FINALIZING:
        ref = job.ref.chunk(keys.JOIN_CHUNK)
        item = await rt.table.get(ref.pk, ref.sk)
        claimed = item is not None and in_hand(Chunk.read(ref, item), now)
    return counts, claimed


def in_hand(chunk: Chunk, now: float) -> bool:
    """Say whether somebody works on a chunk, or its wait is not over."""
    until = chunk.item.get("claim_expires_at") or chunk.item.get("retry_at")
    waiting = chunk.status in {ChunkStatus.RUNNING, ChunkStatus.WAITING}
    return waiting and until is not None and moment(str(until)) > now


def remaining(left: int, done: int, seconds: float) -> float | None:
    """Return the seconds that the rest will take at the rate of this watch."""
    if left <= 0:
        return 0.0
    return left * seconds / done if done > 0 and seconds > 0 else None


def pause(chunks: int) -> float:
    """Return the seconds until the next look."""
    return min(LARGEST_PAUSE_S, PAUSE_S * max(1.0, chunks / LOOKED_AT))
