"""What the calls of a job used, from its records: true also after a crash.

A settled claim has written its usage on the chunk. A claim that was lost, or that still
runs, has it in two places. They are its last page of the journal, and the effects that
it completed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from piecework.domain import keys
from piecework.domain.budget import Amount
from piecework.domain.call_usage import CallUsage, UsageKind
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.rows import CallsRow
from piecework.domain.states import ChunkStatus
from piecework.store.checkpoints import Work, read_effects, read_work
from piecework.store.completion import all_chunks, read_chunk
from piecework.store.table import Table

#: The name under which the bill has the calls of effects in doubt.
IN_DOUBT = "effects in doubt"


@dataclass(slots=True)
class Paid:
    """What the calls of a job used.

    Attributes:
        usage: Everything that is on record.
        twice: The part that lost claims paid after another claim had begun.
        on_dead_chunks: The part of the dead chunks.
        lost_claims: The claims that never settled.
        unrepeated: The chunks in which no later claim has ended the stage of a lost
            one. Calls of that stage that were in flight are in no figure.
    """

    usage: CallUsage = field(default_factory=CallUsage)
    twice: CallUsage = field(default_factory=CallUsage)
    on_dead_chunks: CallUsage = field(default_factory=CallUsage)
    lost_claims: int = 0
    unrepeated: int = 0

    def __post_init__(self) -> None:
        """Let the sums have all models: each chunk may have others."""
        for each in (self.usage, self.twice, self.on_dead_chunks):
            each.most = sys.maxsize

    def add(self, chunk: Chunk, found: tuple[CallUsage, CallUsage]) -> None:
        """Add a chunk with its usage, and the part of it that was paid twice."""
        usage, twice = found
        self.usage.merge(usage)
        self.twice.merge(twice)
        if chunk.status is ChunkStatus.DEAD and not chunk.ref.is_join:
            self.on_dead_chunks.merge(usage)
        self.lost_claims += len(chunk.lost_fences)
        self.unrepeated += may_lack_calls(chunk)


def may_lack_calls(chunk: Chunk) -> bool:
    """Return whether no record has the last calls of a lost claim.

    A later claim makes them again and records them. It has made them for sure only once
    it has ended the stage: it may have been paused before.
    """
    ended = chunk.status is ChunkStatus.SUCCEEDED or chunk.stage != chunk.lost_at
    return bool(chunk.lost_fences) and not ended


async def paid_by(table: Table, job: Job) -> Paid:
    """Return what a job's calls used.

    Only chunks with an open claim, and those that a claim left without a result, cost a
    query.
    """
    found = Paid(job.join_usage)
    async for chunk in all_chunks(table, job.ref, job.chunks):
        found.add(chunk, await usage_of(table, chunk))
        found.usage.merge(await usage_in_doubt(table, chunk))
    join = await read_chunk(table, job.ref.chunk(keys.JOIN_CHUNK))
    if join is not None:
        if join.gen == job.gen:  # `join_usage` has that of an earlier one
            found.add(join, await usage_of(table, join))
        found.usage.merge(await usage_in_doubt(table, join))
    return found


async def usage_in_doubt(table: Table, chunk: Chunk) -> CallUsage:
    """Return the effects in doubt of a chunk without a result, as possibly paid.

    No worker makes them again. A time-out leaves one in doubt, as a lost claim does.
    """
    found = CallUsage()
    has_result = chunk.status is ChunkStatus.SUCCEEDED
    if chunk.fence and chunk.status.ended and not has_result:
        for effect in await read_effects(table, chunk.ref):
            if effect.may_be_uncounted:
                found.add("possibly_paid", IN_DOUBT, [1])
    return found


async def usage_of(table: Table, chunk: Chunk) -> tuple[CallUsage, CallUsage]:
    """Return what the calls of a chunk used, and the part that was paid twice."""
    if not unsettled_fences(chunk):
        return chunk.settled_usage, CallUsage()
    return usage_in(await read_work(table, chunk.ref, chunk), chunk)


def unsettled_fences(chunk: Chunk) -> frozenset[int]:
    """Return the fences of the claims that were lost, or that still run."""
    runs = chunk.status is ChunkStatus.RUNNING
    return chunk.lost_fences | ({chunk.fence} if runs else set())


def usage_in(work: Work, chunk: Chunk) -> tuple[CallUsage, CallUsage]:
    """Return the same from the rows of a chunk."""
    usage, twice = chunk.settled_usage, CallUsage()
    unsettled = unsettled_fences(chunk)
    for fence in unsettled:
        at_stage = CallUsage.read(chunk.stages_usage.get(str(fence)))
        last, in_time = last_usages(work.calls_of(fence), at_stage)
        usage.merge(last)
        twice.merge(last.less(in_time))
    for effect in work.effects:
        if effect.paid_fence in unsettled:
            usage.merge(effect.usage)
    return usage, twice


def last_usages(
    pages: Sequence[CallsRow], at_stage: CallUsage
) -> tuple[CallUsage, CallUsage]:
    """Return the last usage of a claim on record, and the last one in time.

    Each page has all that its claim used so far, and so has the end of its last stage.
    """
    in_time = [at_stage, *(page.usage for page in pages if not page.is_late)]
    late = [page.usage for page in pages if page.is_late]
    return max([*in_time, *late], key=calls_in), max(in_time, key=calls_in)


def calls_in(usage: CallUsage) -> int:
    """Return how many calls were paid for, or possibly were."""
    return usage.total("paid")["calls"] + usage.total("possibly_paid")["calls"]


# ── the budget of a job, by the record ────────────────────────────────────────


def in_budget(paid: Paid) -> tuple[Amount, Amount]:
    """Return what was paid by the record, and what may have been paid without one."""
    return amount_of(paid.usage, "paid"), amount_of(paid.usage, "possibly_paid")


def amount_of(usage: CallUsage, kind: UsageKind) -> Amount:
    """Return the tokens and the money of calls that were answered so."""
    total = usage.total(kind)
    tokens = total["tokens_in"] + total["tokens_out"]
    return Amount(tokens, total["nano_usd"])
