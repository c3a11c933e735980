"""Count the chunks of a large job by its tallies, in as many requests at any size.

A full group has only ended chunks, and a group that no worker has drawn only PENDING
ones. Neither is read. The groups between them are read, or a sample of them. Dead
letters tell which ended chunks have no result.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.explain.situation import have_ended, spread
from piecework.reading import Reading
from piecework.store.backlogs import Backlogs
from piecework.store.completion import Tallies, chunks_of_group
from piecework.store.dead_letters import MOST_LETTERS, DeadLetters, LetterCounts
from piecework_orchestrator.reading.samples import ChunkSample, read_sample

#: Groups and blocks that are read, if so many are begun and not full.
MOST_GROUPS, MOST_BLOCKS = 4, 3
#: Ended chunks of a job whose cancel is in progress: their tallies know no status.
ENDED = "ENDED"


@dataclass(frozen=True, slots=True)
class Places:
    """Where the chunks of a job are that a tally does not tell.

    Attributes:
        full: The groups whose chunks have all ended.
        begun: Groups that were drawn and are not full.
        undrawn: Chunks in groups that no worker has drawn from; all are PENDING.
        exact: Whether these are all groups; else some blocks were not read.
    """

    full: Sequence[int]
    begun: Sequence[int]
    undrawn: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class LargeCounts:
    """The chunks of a large job at one time.

    Attributes:
        by_status: Chunks by status; `ENDED` while a cancel is in progress.
        letters: Its dead letters, or the first of them.
        all_read: Whether every begun group was read; else `by_status` is an estimate.
        chunks: The chunks of the groups that were read.
    """

    places: Places
    by_status: Counter[str]
    letters: LetterCounts
    all_read: bool
    chunks: Sequence[Chunk]

    @property
    def by_version(self) -> Counter[str]:
        """How many of these chunks were claimed last by each code version."""
        versions = Counter(chunk.code_version for chunk in self.chunks)
        del versions[""]  # never claimed, or by a worker that could not tell
        return versions

    @property
    def exact(self) -> bool:
        """Whether all counts are exact; else the dead ones are at least so many."""
        return self.all_read and self.letters.complete

    @property
    def unread(self) -> list[int]:
        """The groups with chunks that workers have drawn, and that were not read."""
        read = {keys.group_of(chunk.ref.chunk) for chunk in self.chunks}
        return [g for g in (*self.places.full, *self.places.begun) if g not in read]


async def count_large(
    rt: Reading, job: Job, known: LetterCounts | None = None
) -> LargeCounts:
    """Count the chunks of a job; ten requests at most.

    `known`: its dead letters, if they were read before.

    Raises:
        SchemaTooNewError: A newer version wrote a chunk.
    """
    places = await find_places(rt, job)
    sampled = spread(places.begun, MOST_GROUPS)
    letters_of = DeadLetters(rt.dead_letters, rt.settings, rt.clock)
    groups = await asyncio.gather(*(read_group(rt, job, each) for each in sampled))
    letters = known or await letters_of.count(job.ref, MOST_LETTERS)
    chunks = [chunk for group in groups for chunk in group]
    all_read = places.exact and len(sampled) == len(places.begun)
    read = Counter(str(chunk.status) for chunk in chunks)
    in_full = sum(keys.partition_size(group, job.chunks) for group in places.full)
    between = job.chunks - in_full - places.undrawn
    counts = scaled(read, between) if chunks else Counter[str]()
    counts[ChunkStatus.PENDING] += places.undrawn + between - counts.total()
    dead_in_full = len(letters.dead.keys() - {chunk.ref.chunk for chunk in chunks})
    if names_results(job):
        counts[ChunkStatus.DEAD] += min(dead_in_full, in_full)
        counts[ChunkStatus.SUCCEEDED] += in_full - min(dead_in_full, in_full)
    else:
        counts[ENDED] += in_full
    by_status = Counter({name: n for name, n in counts.items() if n})
    return LargeCounts(places, by_status, letters, all_read, chunks)


async def sample_large(rt: Reading, job: Job, counted: LargeCounts) -> ChunkSample:
    """Return what stands for the chunks that workers have drawn; three requests more.

    Raises:
        SchemaTooNewError: A newer version wrote a chunk.
    """
    return await read_sample(rt, job, counted.unread, counted.chunks)


async def count_ended(rt: Reading, job: Job, places: Places) -> int:
    """Return how many chunks of a large job have ended; of many groups, at least."""
    begun = [(job.ref, group) for group in places.begun[:MOST_GROUPS]]
    ended = (await Tallies(rt.table).ended_of(begun)).total() if begun else 0
    in_full = sum(keys.partition_size(group, job.chunks) for group in places.full)
    return in_full + ended


async def find_places(rt: Reading, job: Job) -> Places:
    """Return which groups are full, begun, and not drawn yet."""
    groups = keys.partition_count(job.chunks)
    if have_ended(job):
        return Places(range(groups), (), 0)
    drawn = await drawn_groups(rt, job)
    undrawn = max(0, job.chunks - drawn * keys.PARTITION_SIZE)
    if keys.block_count(job.chunks) == 1:
        full = set(job.full_groups)
        exact = True
    else:
        full, exact = await full_groups(rt, job, keys.block_of(max(drawn - 1, 0)))
    begun = [group for group in range(drawn) if group not in full]
    return Places(sorted(full), begun, undrawn, exact)


async def drawn_groups(rt: Reading, job: Job) -> int:
    """Return up to which group workers have drawn chunks."""
    every = keys.partition_count(job.chunks)
    if job.status is JobStatus.SUBMITTING:
        return 0
    if job.backlog_start is None:
        return every
    backlog = await Backlogs(rt.table).of_job(job)
    return (
        every
        if backlog is None
        else min(-(-backlog.next // keys.PARTITION_SIZE), every)
    )


async def full_groups(rt: Reading, job: Job, last: int) -> tuple[set[int], bool]:
    """Return the full groups up to a block; and whether each block was read."""
    full = {
        block * keys.BLOCK_SIZE + place
        for block in job.full_blocks
        for place in range(keys.block_size(block, job.chunks))
    }
    left = [block for block in range(last + 1) if block not in job.full_blocks]
    sampled = spread(left, MOST_BLOCKS)
    if sampled:
        full |= await Tallies(rt.table).full_groups_of(job.ref, sampled)
    return full, len(sampled) == len(left)


async def read_group(rt: Reading, job: Job, group: int) -> list[Chunk]:
    """Return the chunks of a group."""
    return [chunk async for chunk in chunks_of_group(rt.table, job.ref, group)]


def names_results(job: Job) -> bool:
    """Return whether each ended chunk of a job has a result or a dead letter."""
    stopping = {JobStatus.CANCELLING, JobStatus.REOPENING}
    return job.status not in stopping and not job.stopped_code


def scaled(read: Counter[str], number: int) -> Counter[str]:
    """Return counts in proportion, for so many chunks in place of those read."""
    total = read.total()
    if total == number:
        return read.copy()
    return Counter({name: n * number // total for name, n in read.items()})
