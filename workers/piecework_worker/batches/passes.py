"""What a pass of a collector over a model has, and what it does to a request.

It stays the collector while it works. It closes requests, and sends the messages that
wake their chunks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from piecework.aws.queue import Message
from piecework.calls.fleet_budgets import FleetBudgets
from piecework.dependency import Dependency
from piecework.domain import keys
from piecework.domain.batch import (
    CollectorRow,
    Member,
    PlannedRow,
    RequestState,
)
from piecework.domain.budget import NOTHING, Amount
from piecework.domain.call_usage import CallUsage
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.states import JobStatus
from piecework.errors import StateError
from piecework.llm.batches.port import (
    BatchProvider,
)
from piecework.runtime import Runtime
from piecework.store.batch_reads import Place
from piecework.store.batches import Batches
from piecework.store.paid import amount_of

#: Requests that are read, or closed, at the same time.
AT_ONCE: Final = 16
#: Seconds for which a worker is the collector; it renews them while it works.
LEASE_S: Final = 120.0
#: The jobs whose requests are sent.
SENT_IN: Final = frozenset({JobStatus.RUNNING, JobStatus.FINALIZING})
#: The jobs whose requests are kept: the others have ended, or end.
KEPT: Final = SENT_IN | {JobStatus.PAUSED}


class CollectorLostError(Exception):
    """Another worker is the collector of the model now."""


@dataclass(frozen=True, slots=True)
class Closing:
    """A request that is closed, with what its answers cost and the errors of its rows.

    Attributes:
        ref: Its chunk.
    """

    ref: ChunkRef
    member: Member
    state: RequestState
    usage: CallUsage = field(default_factory=CallUsage)
    failed: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Pass:
    """One pass of a collector over one model.

    Attributes:
        place: The tenant and the key of the model.
        fence: That of this collector.
        row: The row of the collector, as it was read before.
        took: The seconds that the last batches took.
        told: What the row of the collector tells of the pass.
        nudge: A chunk that waits, whose message starts a worker for the next pass.
    """

    rt: Runtime
    place: Place
    model: Dependency
    budgets: FleetBudgets
    log: structlog.stdlib.BoundLogger
    worker: str
    fence: int
    row: CollectorRow
    took: list[float] = field(default_factory=list)
    told: dict[str, Any] = field(default_factory=dict)
    nudge: dict[str, Any] | None = None
    _jobs: dict[JobRef, Job | None] = field(default_factory=dict)
    _messages: dict[str, list[Message]] = field(default_factory=dict)
    _renewed_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._renewed_at = self.rt.clock()

    @property
    def batches(self) -> Batches:
        """The batches of the deployment."""
        return Batches(self.rt.table, self.rt.objects, self.rt.clock)

    @property
    def provider(self) -> BatchProvider:
        """The batches of the provider."""
        batch: Any = self.model.batch  # a collector knows only models that have it
        found: BatchProvider = batch.provider
        return found

    async def stay(self) -> None:
        """Stay the collector.

        Raises:
            CollectorLostError: Another worker is.
        """
        if self.rt.clock() - self._renewed_at < LEASE_S / 3:
            return
        self._renewed_at = self.rt.clock()
        if not await self.batches.renew(self.place, self.worker, self.fence, LEASE_S):
            raise CollectorLostError

    async def job(self, ref: JobRef) -> Job | None:
        """Return a job, as this pass read it first; None: it is gone."""
        if ref not in self._jobs:
            self._jobs[ref] = await self.rt.jobs.read(ref)
        return self._jobs[ref]

    async def waits(self, ref: ChunkRef, gen: int) -> None:
        """Note a chunk that waits for the next pass."""
        job = await self.job(ref.of)
        if self.nudge is None and job is not None and job.status in SENT_IN:
            place = {"tenant": ref.tenant, "job": ref.job, "chunk": ref.chunk}
            self.nudge = {**place, "gen": gen, "queue": job.queue}

    async def contents(
        self, row: PlannedRow, length_of: Any = None
    ) -> AsyncIterator[tuple[Member, bytes]]:
        """Yield the requests of a batch; those of a deleted job are left out."""
        members = row.members
        for first in range(0, len(members), AT_ONCE):
            some = members[first : first + AT_ONCE]
            found = await asyncio.gather(
                *(self._content(row, member, length_of) for member in some)
            )
            for member, content in zip(some, found, strict=True):
                if content is not None:
                    yield member, content

    async def _content(
        self, row: PlannedRow, member: Member, length_of: Any
    ) -> bytes | None:
        place = member.job, member.chunk, member.fence, member.part
        length = 0 if length_of is None else length_of(member)
        try:
            key = keys.request_key(row.tenant, *place)
            return await self.rt.objects.get(key, length=length)
        except StateError:
            return None

    async def close(self, closings: Sequence[Closing]) -> None:
        """Close requests, and send the messages that wake their chunks."""
        for first in range(0, len(closings), AT_ONCE):
            some = closings[first : first + AT_ONCE]
            await self.stay()
            chunks = await self.batches.chunks(each.ref for each in some)
            await asyncio.gather(*(self._close(e, chunks.get(e.ref)) for e in some))
            await self.send()

    async def _close(self, closing: Closing, chunk: Chunk | None) -> None:
        job = await self.job(closing.ref.of)
        if job is None or chunk is None:
            return
        closed = await self.batches.close(
            chunk, closing.member, closing.state, closing.usage, closing.failed
        )
        if closed is None:
            return
        if closed.is_woken:
            message = Message.about(closing.ref, closed.chunk.gen)
            self._messages.setdefault(job.queue, []).append(message)
        self._correct(job, closing.member.held, amount_of(closing.usage, "paid"))

    def _correct(self, job: Job, held: Amount, used: Amount) -> None:
        """Replace what budgets have reserved for a request by what it used."""
        for budget, _ in self.budgets.of_job(job).of_call():
            less = used - held
            # What was reserved yesterday gives today no room.
            change = less.at_least(NOTHING) if budget.key.daily else less
            if change:
                budget.correct(NOTHING, change)

    async def send(self) -> None:
        """Send the messages of the chunks that were woken."""
        messages, self._messages = self._messages, {}
        for queue, some in messages.items():
            await self.rt.work.send(some, to=queue)
