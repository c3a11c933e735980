"""Read what the pages show; an open page costs at most one read unit a second.

The item of a job is read at each poll. Its chunks cost a read unit for about 16, so
they are read again after a time in proportion to their number.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from piecework.aws.objects import MOST_BYTES
from piecework.client import Client
from piecework.domain import keys
from piecework.domain.model import ChunkRef, ChunkStatus, Job, moment
from piecework.domain.records import Bounds, read_json
from piecework.domain.rows import WorkerRow
from piecework.errors import PieceworkError
from piecework.explain.finish_time import ChunkTimes
from piecework.explain.situation import OpenChunks
from piecework.explain.waiting import wait_of
from piecework.runtime import Runtime
from piecework.store.breakers import Breakers
from piecework.store.completion import all_chunks
from piecework.store.dead_letters import DeadLetters
from piecework.store.limits import FleetQuotas, read_quota
from piecework.store.workers import read_reports
from piecework_orchestrator.inspector import (
    Document,
    explain,
    progress_of,
    require_chunk,
)
from piecework_orchestrator.letters import read_payload
from piecework_orchestrator.results import read_group, result_json

#: Seconds between two reads of a job's item.
POLL_S = 2.0
#: Seconds for each chunk until the chunks are read again: half a read unit a second.
SECONDS_PER_CHUNK: Final = 1 / 8
#: Chunks in the list of those that need attention, for each status.
MAX_LISTED = 50
#: The newest jobs on the first page.
MAX_JOBS = 50
#: The statuses of the chunks that are listed below the grid.
LISTED: Final = (ChunkStatus.DEAD, ChunkStatus.RUNNING, ChunkStatus.WAITING)


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """The chunks of a job at one time.

    Attributes:
        statuses: The status of each chunk, by number.
        codes: How many chunks ended with each error code.
        listed: The first chunks of each status in `LISTED`, as documents.
        explained: Why the job has not ended, and when it probably ends.
        read_at: Epoch seconds.
    """

    statuses: Sequence[str]
    codes: Counter[str]
    listed: Sequence[Document]
    explained: Document
    read_at: float

    @property
    def counts(self) -> dict[str, int]:
        """The number of chunks by status."""
        return dict(sorted(Counter(self.statuses).items()))


@dataclass(slots=True)
class ChunkTables:
    """The last read of each job that is shown, shared by all open pages."""

    rt: Runtime
    _tables: dict[str, tuple[tuple[Any, ...], ChunkTable]] = field(default_factory=dict)
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)

    async def of(self, job: Job) -> ChunkTable:
        """Return the chunks of a job; read them if they may have changed."""
        key = job.ref.job
        state = (job.gen, str(job.status))
        async with self._locks.setdefault(key, asyncio.Lock()):
            known = self._tables.get(key)
            if known is not None and known[0] == state:
                age = self.rt.clock() - known[1].read_at
                if job.status.ended or age < refresh_s(job.chunks):
                    return known[1]
            table = await read_table(self.rt, job)
            self._tables[key] = (state, table)
            return table


def refresh_s(chunks: int) -> float:
    """Return the seconds until the chunks of an open job are read again."""
    return max(POLL_S, chunks * SECONDS_PER_CHUNK)


async def read_table(rt: Runtime, job: Job) -> ChunkTable:
    """Read every chunk of a job, and what it waits for."""
    statuses: list[str] = []
    codes: Counter[str] = Counter()
    listed: dict[str, list[Document]] = {str(status): [] for status in LISTED}
    open_ = OpenChunks(ChunkTimes(job.gen))
    read_at = rt.clock()
    letters = DeadLetters(rt.dead_letters, rt.settings, rt.clock)
    stopped = await letters.stopped_keys(job)
    async for chunk in all_chunks(rt.table, job.ref, job.chunks):
        open_.add(chunk)
        status = str(chunk.status)
        statuses.append(status)
        if chunk.status.terminal and chunk.error_code:
            codes[chunk.error_code] += 1
        if len(listed.get(status, range(MAX_LISTED))) < MAX_LISTED:
            wait = wait_of(chunk, read_at, stopped)
            listed[status].append(chunk.facts | {"wait": wait.text if wait else ""})
    rows = [row for status in LISTED for row in listed[str(status)]]
    explained = await explain(rt, job, open_)
    return ChunkTable(statuses, codes, rows, explained, read_at)


# ── the deployment ────────────────────────────────────────────────────────────


async def overview(client: Client) -> Document:
    """Return the newest jobs, the causes of open dead letters, and the fleet."""
    jobs: list[Document] = []
    async for facts in client.jobs():
        jobs.append(facts.document)
        if len(jobs) == MAX_JOBS:
            break
    causes, fleet = await asyncio.gather(client.causes(), read_fleet(client.runtime))
    return {"jobs": jobs, "causes": causes, **fleet}


async def read_fleet(rt: Runtime) -> Document:
    """Return the messages in the queue, the open breakers and the limits."""
    depth, breakers = await asyncio.gather(
        rt.work.depth(), Breakers(rt.table, "ui", rt.clock).read_all()
    )
    quotas = FleetQuotas(rt.table, "ui", rt.clock, rt.rng)
    limits = {name: read_quota(row).limits async for name, row in quotas.rows()}
    return {"queue_depth": depth, "breakers": breakers, "limits": limits}


async def read_workers(rt: Runtime) -> list[Document]:
    """Return the last report of each worker, and whether it is alive."""
    now = rt.clock()
    return [
        {
            "worker": row.worker,
            "state": worker_state(row, now),
            "pipelines": sorted(row.pipelines),
            "in_progress": row.in_progress,
            "max_chunks": row.max_chunks,
            "reported_at": row.reported_at,
        }
        for row in sorted(await read_reports(rt.table), key=lambda row: row.worker)
    ]


def worker_state(row: WorkerRow, now: float) -> str:
    """Return whether a worker is alive, late with its report, or stopped."""
    if row.has_stopped:
        return "STOPPED"
    return "ALIVE" if moment(row.due_at) > now else "LATE"


async def progress(rt: Runtime, job: Job) -> int:
    """Return how many chunks of a job have ended."""
    return int((await progress_of(rt, job))["ended_chunks"])


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
    group = keys.partition_of(ref.chunk)
    ended = await read_group(rt, job, group, [ref.chunk])
    text = await result_json(rt, ended[0]) if ended else "null"
    return read_json(text.encode(), Bounds(MOST_BYTES))
