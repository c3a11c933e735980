"""Read what the page of a job shows; an open page takes at most a read unit a second.

The item of a job is read every two seconds. About 16 chunks take a read unit. So the
chunks of a job are read again after a time in proportion to their number.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from piecework.aws.payloads import MOST_BYTES
from piecework.domain import keys
from piecework.domain.call_usage import CallUsage
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.refs import ChunkRef
from piecework.domain.states import ChunkStatus
from piecework.domain.strict_json import Bounds, read_json
from piecework.errors import PieceworkError
from piecework.explain.finish_time import ChunkTimes
from piecework.explain.situation import (
    IN_DOUBT,
    OpenChunks,
    Situation,
    read_situation,
)
from piecework.runtime import Runtime
from piecework.store.checkpoints import read_effects
from piecework.store.completion import all_chunks, read_chunk
from piecework.store.dead_letters import MOST_LETTERS, LetterCounts
from piecework.store.paid import Paid, usage_of
from piecework_orchestrator.cost.job import bill_for_page, is_recorded
from piecework_orchestrator.dead_letters.letters import read_payload
from piecework_orchestrator.reading.chunk_documents import (
    effect_document,
    require_chunk,
)
from piecework_orchestrator.reading.events import ClaimEvents
from piecework_orchestrator.reading.job_documents import (
    MAX_READ_CHUNKS,
    Document,
    budget_facts,
    dead_letters_of,
    explanation,
    read_certificate_head,
    require_job,
)
from piecework_orchestrator.reading.job_list import progress_of
from piecework_orchestrator.reading.large_jobs import (
    LargeCounts,
    count_large,
    sample_large,
)
from piecework_orchestrator.reading.samples import ChunkSample
from piecework_orchestrator.results.results import read_group, result_json
from piecework_orchestrator.ui.attention import Lists
from piecework_orchestrator.ui.chart import JobHistory
from piecework_orchestrator.ui.pacing import Pacing

#: Read units a second for the item of a job, and for its chunks.
RECORD_UNITS, CHUNK_UNITS = 0.5, 0.4
MINUTE_S: Final = 60


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """The chunks of a job at one time.

    Attributes:
        statuses: The status of each chunk, by number.
        codes: How many chunks ended with each error code.
        versions: How many chunks were claimed last by each code version.
        lists: The first chunks that need a person, and those at work.
        at_work: How many live workers have which code version of its pipeline; None:
            cannot be read.
        explained: Why the job has not ended, and when it probably ends.
        rate: Chunks that end in a minute; None: not known.
        calls: Its paid calls, those of running chunks until the last renewal of their
            leases.
        used: What they used.
        bill: What it has cost so far; None: not known, or of a large job.
        history: When its chunks ended and failed.
        claims: The takeovers and the waits of its chunks.
        read_at: Epoch seconds.
        sampled: By how many chunks `used` and `history` are estimated; 0: by all.
    """

    statuses: Sequence[str]
    codes: Counter[str]
    versions: Counter[str]
    lists: Lists
    at_work: Counter[str] | None
    explained: Document
    rate: float | None
    calls: int
    used: CallUsage
    bill: Document | None
    history: JobHistory
    claims: ClaimEvents
    read_at: float
    sampled: int = 0

    @property
    def is_large(self) -> bool:
        """Whether its chunks were counted by tallies; its bill is not added up."""
        return len(self.statuses) > MAX_READ_CHUNKS

    @property
    def ended(self) -> int:
        """The number of chunks that have ended."""
        ended = {str(each) for each in ChunkStatus if each.ended}
        return sum(status in ended for status in self.statuses)

    @property
    def counts(self) -> dict[str, int]:
        """The number of chunks by status."""
        return dict(sorted(Counter(self.statuses).items()))


@dataclass(frozen=True, slots=True)
class JobReads:
    """The reads of jobs, shared by all open pages."""

    rt: Runtime
    pacing: Pacing

    async def record(self, job: str) -> tuple[Job, Document]:
        """Return a job, and its progress and budget.

        Raises:
            NotFoundError: `job.record.not_found`; `job.record.deleted`.
        """

        async def read() -> tuple[Job, Document]:
            record = await require_job(self.rt, job)
            progress = await progress_of(self.rt, record)
            return record, progress | await budget_facts(self.rt, record)

        return await self.pacing.get(("record", job), read, RECORD_UNITS)

    async def table(self, job: Job) -> ChunkTable:
        """Return the chunks of a job; read them if they may have changed."""
        ended, letters = job.status.ended, await self.letters(job)
        final = ended and is_recorded(job.finished_at, self.rt.clock())
        return await self.pacing.get(
            ("chunks", job.ref.job),
            lambda: read_table(self.rt, job, letters),
            CHUNK_UNITS,
            state=(job.gen, str(job.status), final),
            final=final,
        )

    async def effects(self, job: Job, table: ChunkTable) -> list[Document]:
        """Return the effects in doubt of ended chunks and of the join.

        The job may run again meanwhile. A chunk that a worker holds resolves its own.
        """
        refs = table.lists.doubtful

        async def read() -> list[Document]:
            found = await asyncio.gather(*(in_doubt_of(self.rt, ref) for ref in refs))
            return [row for rows in found for row in rows]

        key, state = ("effects", job.ref.job), (job.gen, tuple(refs))
        return await self.pacing.get(key, read, CHUNK_UNITS, state=state)

    async def letters(self, job: Job) -> LetterCounts:
        """Return the dead letters of a job, or of its first ones."""
        return await self.pacing.get(
            ("letters", job.ref.job),
            lambda: dead_letters_of(self.rt).count(job.ref, MOST_LETTERS),
            CHUNK_UNITS,
            state=(job.gen, str(job.status)),
        )

    def forget(self, job: str) -> None:
        """Read a job again at the next request: an operator changed it."""
        self.pacing.forget(("letters", job))
        self.pacing.forget(("record", job))
        self.pacing.forget(("effects", job))

    def refresh_s(self, job: Job) -> float:
        """Return the seconds after which the chunks of a job are read again."""
        return self.pacing.for_s(("chunks", job.ref.job))


async def read_table(rt: Runtime, job: Job, letters: LetterCounts) -> ChunkTable:
    """Read the chunks of a job, what they wait for, and what they have cost."""
    if job.chunks > MAX_READ_CHUNKS:
        return await read_large_table(rt, job, letters)
    statuses: list[str] = []
    codes: Counter[str] = Counter()
    versions: Counter[str] = Counter()
    open_, paid = OpenChunks(ChunkTimes(job.gen)), Paid(job.join_usage)
    read_at, claims, history = rt.clock(), ClaimEvents(), JobHistory()
    stopped = await dead_letters_of(rt).stopped_keys(job)
    lists = Lists(read_at, letters.discarded, stopped)
    async for chunk in all_chunks(rt.table, job.ref, job.chunks):
        open_.add(chunk)
        claims.add(chunk)
        paid.add(chunk, await usage_so_far(rt, chunk))
        status = str(chunk.status)
        statuses.append(status)
        versions[chunk.code_version] += 1
        if chunk.status.ended and chunk.error_code:
            codes[chunk.error_code] += 1
        lists.add(chunk)
        history.add(chunk, read_at)
    if job.status.ended:
        join = await read_chunk(rt.table, job.ref.chunk(keys.JOIN_CHUNK))
        if join is not None and join.gen == job.gen:
            paid.add(join, await usage_so_far(rt, join))
    situation = await read_situation(rt, job, open_)
    lists.add_join(situation.join)
    found = situation.throughput
    rate = None if found is None else found.rate * MINUTE_S
    bill = await bill_for_page(rt, job, paid)
    explained = explanation(situation)
    del versions[""]  # never claimed, or by a worker that could not tell
    return ChunkTable(
        statuses,
        codes,
        versions,
        lists,
        versions_at_work(situation),
        explained,
        rate,
        paid.usage.total("paid")["calls"],
        paid.usage,
        bill,
        history,
        claims,
        read_at,
    )


async def read_large_table(rt: Runtime, job: Job, known: LetterCounts) -> ChunkTable:
    """Count the chunks of a large job by its tallies; a sample stands for its calls.

    A chunk in a group that was not read has the status that most of its group have.
    """
    read_at, claims = rt.clock(), ClaimEvents()
    counted = await count_large(rt, job, known)
    sample = await sample_large(rt, job, counted)
    used = sample.calls.usage
    calls = await paid_by_ended(rt, job) or used.total("paid")["calls"]
    places, letters = counted.places, counted.letters
    statuses = [str(ChunkStatus.PENDING)] * job.chunks
    for group in places.full:
        first, size = (
            group * keys.PARTITION_SIZE,
            keys.partition_size(group, job.chunks),
        )
        statuses[first : first + size] = [str(ChunkStatus.SUCCEEDED)] * size
    for number in letters.dead:
        statuses[number] = str(ChunkStatus.DEAD)
    lists = Lists(read_at, letters.discarded)
    for chunk in counted.chunks:
        claims.add(chunk)
        statuses[chunk.ref.chunk] = str(chunk.status)
        lists.add(chunk)
    read = {chunk.ref.chunk for chunk in counted.chunks}
    lists.add_letters(
        job.ref, {n: code for n, code in letters.dead.items() if n not in read}
    )
    situation = await read_situation(rt, job)
    lists.add_join(situation.join)
    found = situation.throughput
    return ChunkTable(
        statuses,
        letters.codes,
        counted.by_version,
        lists,
        versions_at_work(situation),
        explanation(situation),
        None if found is None else found.rate * MINUTE_S,
        calls,
        used,
        None,
        history_of_large(counted, sample, read_at),
        claims,
        read_at,
        0 if sample.exact else sample.number,
    )


async def paid_by_ended(rt: Runtime, job: Job) -> int:
    """Return the paid calls of a large job by its certificate; 0: it has not ended."""
    head = await read_certificate_head(rt, job) or {}
    return int((head.get("calls") or {}).get("paid", 0))


def history_of_large(
    counted: LargeCounts, sample: ChunkSample, now: float
) -> JobHistory:
    """Return the history of a large job: its dead chunks exactly, the rest by a sample.

    Of more dead letters than are read, the first ones stand for all.
    """
    history = JobHistory(counts_dead=False)
    for chunk in sample.whole:
        history.add(chunk, now)
    for chunk in sample.drawn:
        history.add(chunk, now, sample.weight)
    died = counted.letters.died_at
    weight = max(1.0, counted.by_status[ChunkStatus.DEAD] / max(1, len(died)))
    history.add_deaths(died, weight)
    return history


def versions_at_work(situation: Situation) -> Counter[str] | None:
    """Return how many live workers have which code version of a job's pipeline."""
    if situation.workers is None:
        return None
    live = [row for row in situation.workers if row.is_live(situation.now)]
    found = Counter(row.code_versions.get(situation.job.pipeline, "") for row in live)
    del found[""]  # without the pipeline, or unable to tell
    return found


async def in_doubt_of(rt: Runtime, ref: ChunkRef) -> list[Document]:
    """Return the effects in doubt of a chunk, the oldest first."""
    rows = [row for row in await read_effects(rt.table, ref) if row.state in IN_DOUBT]
    found = [{"chunk": ref.chunk, **effect_document(row)} for row in rows]
    return sorted(found, key=lambda row: str(row["started_at"]))


async def usage_so_far(rt: Runtime, chunk: Chunk) -> tuple[CallUsage, CallUsage]:
    """Return what the claims of a chunk used; the present one until its last renewal.

    See `usage_of`.
    """
    if chunk.lost_fences and chunk.status is not ChunkStatus.RUNNING:
        return await usage_of(rt.table, chunk)
    return chunk.usage_so_far, CallUsage()


# ── the payload and the result of a chunk ─────────────────────────────────────


async def read_values(rt: Runtime, job: Job, number: int) -> Document:
    """Return input and result of a chunk as JSON values, or why one is not readable."""
    chunk = await require_chunk(rt, job.ref.chunk(number))
    values: Document = {}
    try:
        place = (chunk.payload, chunk.payload_sha256)
        values["payload"] = await read_payload(rt, chunk.ref, *place)
        if chunk.status is ChunkStatus.SUCCEEDED:
            values["result"] = await read_result(rt, job, chunk.ref)
    except PieceworkError as error:
        values["unreadable"] = f"{error.code}: {error.message}"
    return values


async def read_result(rt: Runtime, job: Job, ref: ChunkRef) -> Any:
    """Return the result of a succeeded chunk as a JSON value."""
    group = keys.group_of(ref.chunk)
    ended = await read_group(rt, job, group, [ref.chunk])
    text = await result_json(rt, ended[0]) if ended else "null"
    return read_json(text, Bounds(MOST_BYTES), finite=False)
