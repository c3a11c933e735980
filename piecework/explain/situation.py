"""Read the situation of a job: its rows, its open chunks, and the fleet.

A job of up to eleven open groups is read completely. In a larger one, eleven are
sampled: the first, the last, and those between them at equal distances. Two full groups
tell how fast the chunks end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, ParamSpec, TypeVar

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.job import Job
from piecework.domain.ladder import Climb
from piecework.domain.moments import iso
from piecework.domain.outcome import BATCH, CHANGED_CODE
from piecework.domain.records import read_optional_text
from piecework.domain.refs import ChunkRef
from piecework.domain.rows import WorkerRow
from piecework.domain.states import JobStatus
from piecework.domain.webhook import Webhook
from piecework.errors import StoreError
from piecework.explain.batches import MOST_MODELS, BatchFacts, read_batches
from piecework.explain.changed import is_stopped, stop_document
from piecework.explain.children import ChildProgress, read_children
from piecework.explain.finish_time import (
    RECENT_SHARE,
    ChunkTimes,
    Throughput,
    throughput_of_all,
    throughput_since,
)
from piecework.explain.in_flight import InFlight, may_wait, read_in_flight
from piecework.reading import Reading
from piecework.resilience.budget import (
    DAY_RESERVED_CODE,
    RESERVED_CODE,
    key_of_job,
    key_of_tenant,
)
from piecework.store.breakers import FleetRecord, read_fleet
from piecework.store.checkpoints import read_effects, read_work
from piecework.store.completion import Tallies, chunks_of_group, read_chunk
from piecework.store.dead_letters import is_open, keys_stopped_by
from piecework.store.effects import INTENT, UNKNOWN
from piecework.store.outbox import webhooks_of
from piecework.store.workers import read_reports

P = ParamSpec("P")
R = TypeVar("R")

#: The most groups, blocks, and dead letters of one page, that are read. Each costs a
#: request or a part of one; all together cost at most 20.
MAX_GROUPS: Final = 11
MAX_BLOCKS: Final = 3
MAX_LETTERS: Final = 100
#: The code of a read that the role of the operator does not allow.
ACCESS_DENIED: Final = "aws.access.denied"
#: The code of a chunk that died of an effect in doubt.
EFFECT_IN_DOUBT: Final = "runtime.effect.unknown"
#: States of an effect in doubt.
IN_DOUBT: Final = frozenset({INTENT, UNKNOWN})
#: The jobs whose join is in progress, or may be a dead letter.
JOINED: Final = (JobStatus.FINALIZING, JobStatus.PARTIAL, JobStatus.FAILED)


@dataclass(slots=True)
class OpenChunks:
    """The chunks of a job that have not ended, or a sample of them.

    Attributes:
        times: The times of all chunks that were read.
        unstable: Those of all that were read whose calls differ in each run.
        newer: How many open chunks only a newer version can read; not in `chunks`.
        share: The part of the open groups that was read; 1: all of them.
        full_groups: The groups whose chunks have all ended, if they were not read.
    """

    times: ChunkTimes
    chunks: list[Chunk] = field(default_factory=list)
    unstable: list[Chunk] = field(default_factory=list)
    newer: int = 0
    share: float = 1.0
    full_groups: Sequence[int] = ()

    def add(self, chunk: Chunk) -> None:
        """Add a chunk of the job."""
        self.times.add(chunk)
        if is_unstable(chunk):
            self.unstable.append(chunk)
        if not chunk.status.ended:
            self.chunks.append(chunk)

    @property
    def exact(self) -> bool:
        """Whether these are all open chunks."""
        return self.share == 1.0

    @property
    def number(self) -> int:
        """How many chunks of the job have not ended."""
        return self.estimate(len(self.chunks) + self.newer)

    def estimate(self, number: int) -> int:
        """Return for how many chunks of the job a number of these stands."""
        return round(number / self.share)


@dataclass(frozen=True, slots=True)
class OpenLetters:
    """The open dead letters of a job, as far as they were read.

    Attributes:
        number: Those that can be read, and the damaged ones.
        complete: Whether all letters of the job were read.
        since: When the first of them was written, ISO 8601.
        stopped_keys: The order keys that they stop.
        climbs: The ladders of those whose next rung is ahead.
        in_doubt: How many died of an effect in doubt that is not known to be resolved.
        resolved: How many died of effects in doubt that are all resolved.
        damaged: How many have attributes that cannot be read.
        without_effect: How many name a stage that had nothing to compensate.
        changed: The first chunk of them that newer code has stopped; None: none.
        more_requests: How many requests were needed beside that of the first page.
    """

    number: int = 0
    complete: bool = True
    since: str = ""
    stopped_keys: frozenset[str] = frozenset()
    climbs: Sequence[Climb] = ()
    in_doubt: int = 0
    resolved: int = 0
    damaged: int = 0
    without_effect: int = 0
    changed: ChunkRef | None = None
    more_requests: int = 0


@dataclass(frozen=True, slots=True)
class Situation:
    """The parts of the record that decide why a job has not ended.

    Attributes:
        open: Its open chunks, without the join.
        throughput: How fast its chunks end; None: too few have ended.
        budget_since: When an operator set the budget that stopped the join, or when its
            day began. Empty: neither, or no budget stopped it.
        fleet: Breakers and limits; None: this operator cannot read them.
        workers: The last reports of all workers; None: cannot be read.
        run_line: What starts the run again whose state file this is. No process works
            on it meanwhile, whatever leases and reports say. Empty: a deployment.
        webhooks: The webhooks of the tenant; None: cannot be read.
        lease_s: The seconds of a lease, if its worker does not report them.
        stopped: What old and new code do in the first chunk that newer code stopped,
            as `stop_document` returns it; None: it stopped none of those read.
        quota_wait_s: The seconds for which a call waits in its worker at most.
        in_flight: The effects of lost workers that RUNNING chunks wait for.
        children: How far the child jobs are that chunks wait for.
        batches: The open batches and gathered requests of its chunks.
    """

    now: float
    job: Job
    open: OpenChunks
    throughput: Throughput | None = None
    join: Chunk | None = None
    budget_since: str = ""
    letters: OpenLetters = field(default_factory=OpenLetters)
    fleet: FleetRecord | None = None
    workers: Sequence[WorkerRow] | None = None
    webhooks: Sequence[Webhook] | None = None
    lease_s: float = 60.0
    stopped: Mapping[str, Any] | None = None
    quota_wait_s: float = 300.0
    in_flight: Sequence[InFlight] = ()
    children: Sequence[ChildProgress] = ()
    batches: Sequence[BatchFacts] = ()
    run_line: str = ""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all jobs of a tenant share; None: this operator cannot read it.

    Attributes:
        fleet: Breakers and limits.
        workers: The last reports of all workers.
        webhooks: The webhooks of the tenant.
    """

    fleet: FleetRecord | None
    workers: Sequence[WorkerRow] | None
    webhooks: Sequence[Webhook] | None


async def read_surroundings(rt: Reading, tenant: str) -> Surroundings:
    """Read what the jobs of a tenant share: three requests."""
    fleet, workers, hooks = await asyncio.gather(
        if_readable(read_fleet, rt.table),
        if_readable(read_reports, rt.table),
        if_readable(webhooks_of, rt.table, tenant),
    )
    return Surroundings(fleet, workers, hooks)


async def read_situation(
    rt: Reading,
    job: Job,
    known: OpenChunks | None = None,
    around: Surroundings | None = None,
) -> Situation:
    """Read the situation of a job; `known`: its open chunks, if they were read before.

    `around`: its surroundings, if they were.

    Raises:
        StoreError: The rows of the job cannot be read.
        SchemaTooNewError: A newer version wrote a chunk.
    """
    (
        (open_, throughput),
        (join, budget_since),
        letters,
        found,
    ) = await asyncio.gather(
        read_chunks(rt, job, known),
        read_join(rt, job),
        read_letters(rt, job),
        given(around) if around else read_surroundings(rt, job.ref.tenant),
    )
    return Situation(
        now=rt.clock(),
        job=job,
        open=open_,
        throughput=throughput,
        join=join,
        budget_since=budget_since,
        letters=letters,
        fleet=found.fleet,
        workers=found.workers,
        webhooks=found.webhooks,
        lease_s=rt.settings.lease_s,
        stopped=await read_stopped(rt, open_, letters.changed, join),
        quota_wait_s=rt.settings.quota_wait_s,
        in_flight=await read_waited_for(rt, job, open_, letters.more_requests),
        children=await read_children(rt, open_.chunks),
        batches=await read_batches_of(rt, job, open_),
        run_line=rt.endpoint.run_line,
    )


async def read_batches_of(rt: Reading, job: Job, open_: OpenChunks) -> list[BatchFacts]:
    """Return the open batches that answer chunks of a job; without such a chunk none.

    Those of a role that cannot read them are left out.
    """
    if not any(chunk.blocked_on == BATCH for chunk in open_.chunks):
        return []
    known = rt.table, job.ref.tenant, rt.clock()
    models = MOST_MODELS if open_.exact else 1  # a large job has few requests left
    found = await if_readable(read_batches, *known, models=models)
    return [each for each in found or () if each.chunks_of(job.ref.job)]


async def given(found: Surroundings) -> Surroundings:
    """Return what was read before."""
    return found


async def read_waited_for(
    rt: Reading, job: Job, open_: OpenChunks, spent: int
) -> list[InFlight]:
    """Return the effects of lost workers that open chunks wait for.

    Those that were claimed last are read, within the requests that are left.
    """
    groups = 0 if have_ended(job) else keys.partition_count(job.chunks)
    left = max(0, MAX_GROUPS - groups - spent)
    found = sorted(filter(may_wait, open_.chunks), key=lambda one: one.claimed_at)
    return await read_in_flight(rt, found[::-1][:left])


async def read_stopped(
    rt: Reading, open_: OpenChunks, dead: ChunkRef | None, join: Chunk | None
) -> Mapping[str, Any] | None:
    """Return what old and new code do in the first chunk that newer code stopped.

    `dead`: the first dead letter of one, which counts if no open chunk is stopped. The
    join counts after both.
    """
    if not open_.exact:  # a large job has no request left
        return None
    found = min(filter(is_stopped, open_.chunks), key=number_of, default=None)
    if found is None and dead is not None:
        found = await read_chunk(rt.table, dead)
    found = found or join
    if found is None or not is_stopped(found):
        return None
    return stop_document(found, await read_work(rt.table, found.ref, found))


def is_unstable(chunk: Chunk) -> bool:
    """Return whether the code that had a chunk last calls otherwise in each run."""
    found = chunk.unstable_call
    return bool(found) and found.get("code_version", "") == chunk.code_version


def number_of(chunk: Chunk) -> int:
    """Return the number of a chunk."""
    return chunk.ref.chunk


async def read_chunks(
    rt: Reading, job: Job, known: OpenChunks | None
) -> tuple[OpenChunks, Throughput | None]:
    """Return the open chunks of a job, and how fast its chunks end."""
    open_ = await read_open_chunks(rt, job) if known is None else known
    if not open_.full_groups:
        ends = [end for _, end in open_.times.spans]
        # After the last chunk has ended, the time that passes tells nothing.
        until = rt.clock() if open_.number else max(ends, default=0.0)
        return open_, throughput_of_all(open_.times, until)
    full = open_.full_groups
    place = round((len(full) - 1) * (1 - RECENT_SHARE))
    marker, last = await asyncio.gather(
        times_of_group(rt, job, full[place]), times_of_group(rt, job, full[-1])
    )
    if not marker.spans:
        return open_, None
    ended = job.chunks - open_.number - (place + 1) * keys.PARTITION_SIZE
    since = max(end for _, end in marker.spans)
    last.spans += open_.times.spans
    return open_, throughput_since(last, since, ended, rt.clock())


async def times_of_group(rt: Reading, job: Job, group: int) -> ChunkTimes:
    """Return the times of the chunks of a group."""
    times = ChunkTimes(job.gen)
    async for chunk in chunks_of_group(rt.table, job.ref, group, []):
        times.add(chunk)
    return times


async def read_open_chunks(rt: Reading, job: Job) -> OpenChunks:
    """Return the chunks of a job that have not ended, or a sample of them."""
    open_ = OpenChunks(ChunkTimes(job.gen))
    if have_ended(job):
        return open_
    groups, full, share = await list_groups(Tallies(rt.table), job)
    sampled = spread(groups, MAX_GROUPS)
    newer: list[ChunkRef] = []

    async def read(group: int) -> None:
        async for chunk in chunks_of_group(rt.table, job.ref, group, newer):
            open_.add(chunk)

    await asyncio.gather(*map(read, sampled))
    open_.newer, open_.full_groups = len(newer), full
    open_.share = share * (len(sampled) / len(groups) if groups else 1.0)
    return open_


def have_ended(job: Job) -> bool:
    """Return whether all chunks of a job have ended: no group is read."""
    return job.status.ended or job.status is JobStatus.FINALIZING


async def list_groups(tallies: Tallies, job: Job) -> tuple[list[int], list[int], float]:
    """Return the groups that are not full and those that are.

    If a job has several blocks, only some are read. The last value is the share of the
    returned groups among all that are not full.
    """
    blocks = keys.block_count(job.chunks)
    if blocks == 1:
        every = range(keys.partition_count(job.chunks))
        groups = [group for group in every if group not in job.full_groups]
        return groups, sorted(job.full_groups), 1.0
    left = [block for block in range(blocks) if block not in job.full_blocks]
    sampled = spread(left, MAX_BLOCKS)
    full = await tallies.full_groups_of(job.ref, sampled) if sampled else set()
    ended = [g for b in job.full_blocks for g in groups_of_block(b, job.chunks)]
    ended += full
    groups = [
        group
        for block in sampled
        for group in groups_of_block(block, job.chunks)
        if group not in full
    ]
    share = len(sampled) / len(left) if left else 1.0
    return groups, sorted(ended), share


def groups_of_block(block: int, chunks: int) -> range:
    """Return the groups of a block of a job."""
    first = block * keys.BLOCK_SIZE
    return range(first, first + keys.block_size(block, chunks))


def spread(numbers: Sequence[int], most: int) -> list[int]:
    """Return at most so many of the numbers: both ends, and equal distances between."""
    if len(numbers) <= most:
        return list(numbers)
    last = len(numbers) - 1
    return [numbers[round(place * last / (most - 1))] for place in range(most)]


async def read_join(rt: Reading, job: Job) -> tuple[Chunk | None, str]:
    """Return the join of a job that has one, and since when its budget is as it is."""
    if job.status not in JOINED:
        return None, ""
    join = await read_chunk(rt.table, job.ref.chunk(keys.JOIN_CHUNK))
    budgets = {
        RESERVED_CODE: key_of_job(job.ref),
        DAY_RESERVED_CODE: key_of_tenant(job.ref.tenant),
    }
    ends = join.history[-1:] if join is not None else []
    key = budgets.get(ends[0].get("code", "")) if ends else None
    if key is None:
        return join, ""
    row = await if_readable(rt.table.get, key.pk, key.sk) or {}
    today = iso(rt.clock())[:10] if key.daily else ""
    return join, max(read_optional_text(row, "set_at") or "", today)


async def read_letters(rt: Reading, job: Job) -> OpenLetters:
    """Return the open dead letters of a page: of the first one with an open one.

    A group that is not read leaves a request for one page more, or for the effects of
    a letter that died of one in doubt.
    """
    groups = 0 if have_ended(job) else keys.partition_count(job.chunks)
    pk, count, after = job.ref.pk, MAX_LETTERS + 1, ""
    left, pages = max(0, MAX_GROUPS - groups), 0
    while True:
        last = after and keys.LAST_SK
        items = await rt.dead_letters.first(pk, count, prefix=after, last=last)
        pages += 1
        if len(items) < count or any(map(is_open, items)) or not left:
            break
        after, left = items[-1]["sk"], left - 1
    damaged: list[DeadLetterRow] = []
    letters = [DeadLetterRow.read(item, damaged) for item in filter(is_open, items)]
    open_ = list(filter(None, letters))
    died = [each for each in open_ if each.error_code == EFFECT_IN_DOUBT]
    effects = await asyncio.gather(
        *(read_effects(rt.table, letter.ref) for letter in died[:left])
    )
    resolved = sum(IN_DOUBT.isdisjoint(row.state for row in rows) for rows in effects)
    return OpenLetters(
        len(open_) + len(damaged),
        len(items) < count,
        min((letter.dead_lettered_at for letter in open_), default=""),
        keys_stopped_by(items),
        [climb for climb in map(Climb.of, open_) if climb is not None],
        len(died) - resolved,
        resolved,
        len(damaged),
        sum(bool(letter.stages_without_effect) for letter in open_),
        next((each.ref for each in open_ if each.error_code == CHANGED_CODE), None),
        more_requests=pages - 1 + len(effects),
    )


async def if_readable(
    read: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs
) -> R | None:
    """Return what was read; None: AWS refused it to this operator.

    It makes the coroutine itself: one that is given would never be awaited if the task
    of this read was cancelled before it began.
    """
    try:
        return await read(*args, **kwargs)
    except StoreError as error:
        if error.code != ACCESS_DENIED:
            raise
        return None
