"""Draw chunks from the backlogs of large jobs, beside the messages of the queue.

The next chunks of order keys, which this worker has unblocked, take turns with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from piecework.calls.fleet_breaker import BreakerRegistry
from piecework.domain.job import Job
from piecework.domain.records import MALFORMED_ERRORS
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.states import JobStatus
from piecework.errors import PermanentError, SchemaTooNewError
from piecework.jobs.pausing import is_drawn
from piecework.runtime import Runtime
from piecework.store.backlogs import Backlog
from piecework.store.completion import read_chunks
from piecework_worker.intake import Intake
from piecework_worker.next_chunks import JobChunks
from piecework_worker.polls import receive_wait_s
from piecework_worker.turns import MESSAGES, Turn, Turns

#: Seconds between two reads of the backlogs while there are some. The worker sees a
#: change of priority and a new job within this time.
READ_S: Final = 5.0
#: Seconds after a receive without a message until the worker receives again before it
#: draws. A receive costs a request, and a drawn chunk needs none.
CHECK_S: Final = 0.5


@dataclass(slots=True)
class Draws:
    """The backlogs that one worker knows, and the turns that it takes.

    Attributes:
        start: Starts a chunk of a job, in a generation, in a slot of the worker.
        with_messages: The queues whose last receive returned a message.
    """

    rt: Runtime
    intake: Intake
    breakers: BreakerRegistry
    start: Callable[[Job, ChunkRef, int], None]
    with_messages: set[str] = field(default_factory=set)
    turns: Turns = field(default_factory=Turns)
    _backlogs: dict[JobRef, Backlog] = field(default_factory=dict)
    #: Generations of jobs that were hinted since the last regular read. The messages of
    #: a drained backlog cause no further read.
    _hinted: set[tuple[JobRef, int]] = field(default_factory=set)
    _read_at: float = -inf
    _checked_at: float = -inf

    @property
    def has_chunks(self) -> bool:
        """Whether a known backlog has chunks left, or a next chunk waits."""
        return bool(self._startable())

    def hint(self, job: Job) -> None:
        """Read the backlogs again soon, because a received message is of such a job."""
        # The backlog of a job with a sample may be opened after a first hint.
        hinted = (job.ref, job.gen) in self._hinted and not job.sample
        if job.backlog_start is not None and not (hinted or job.ref in self._backlogs):
            self._hinted.add((job.ref, job.gen))
            self._read_at = -inf
            self.intake.next_chunks.wake.set()

    def received(self, queue: str, messages: int) -> None:
        """Note how many messages a receive of a queue returned."""
        if messages:
            self.with_messages.add(queue)
        else:
            self.with_messages.discard(queue)
        self._checked_at = self._now()
        self.turns.started(MESSAGES, messages)

    async def read_if_due(self) -> None:
        """Read the backlogs: rarely while there are none.

        Raises:
            StoreError: The table does not answer.
        """
        rt = self.rt
        pause = READ_S if self._backlogs else max(READ_S, receive_wait_s(rt))
        if rt.endpoint.loopback:
            pause = min(pause, receive_wait_s(rt))
        if self._now() - self._read_at < pause:
            return
        if self._read_at > -inf:
            self._hinted.clear()
        self._read_at = self._now()
        self._backlogs = {
            backlog.ref: backlog
            for queue in self.intake.queues
            async for backlog in rt.backlogs.of_queue(queue)
        }
        if self._backlogs:
            self.breakers.prefetch()  # the caps of tenants are beside them

    def turn(self, *, polling: bool) -> Turn:
        """Return whose turn the next free slots are.

        While SQS waits for a message of each queue (`polling`), messages have slots of
        their own.
        """
        waiting: set[Turn] = {turn_of(each) for each in self._startable()}
        if not waiting or (self._check_is_due() and not polling):
            return MESSAGES
        messages = self.with_messages and not polling
        return self.turns.next(waiting | ({MESSAGES} if messages else set()))

    def _startable(self) -> list[Backlog | JobChunks]:
        """Return what has chunks left and a tenant with a free slot."""
        known: list[Backlog | JobChunks] = [
            *self.intake.next_chunks.jobs,
            *self._backlogs.values(),
        ]
        return [each for each in known if self.intake.caps.room(each.ref.tenant)]

    def _check_is_due(self) -> bool:
        """Return whether to receive although the last receives had no message."""
        return not self.with_messages and self._now() - self._checked_at >= CHECK_S

    async def draw(self, turn: Turn, free: int, ahead: int = 0) -> None:
        """Start chunks of a job whose turn it is, in `free` slots.

        `ahead`: how many more chunks to draw from a backlog. They wait for a slot.

        Raises:
            StoreError: The table does not answer.
        """
        found = self.turns.next_job(
            [each for each in self._startable() if turn_of(each) == turn]
        )
        most = free + ahead if isinstance(found, Backlog) else free
        self.intake.caps.want(found.ref.tenant, most)
        most = min(most, self.intake.caps.room(found.ref.tenant))
        if isinstance(found, Backlog):
            await self._draw(found, most)
            return
        chunks = list(self.intake.next_chunks.take(found, most))
        self.turns.started(turn, len(chunks), found.ref)
        for ref, gen in chunks:
            self.start(found.job, ref, gen)

    async def _draw(self, backlog: Backlog, most: int) -> None:
        """Draw and start up to `most` chunks of a backlog."""
        job = await self._job(backlog)
        if job is None:
            del self._backlogs[backlog.ref]
            self._hinted.discard((backlog.ref, backlog.gen))
            return
        drawn, after = await self.rt.backlogs.draw(backlog, most)
        if after is None:
            self._backlogs.pop(backlog.ref, None)
        else:
            self._backlogs[backlog.ref] = after
        started = await self._heads(job, drawn) if job.is_ordered else drawn
        self.turns.started(backlog.priority, len(started), backlog.ref)
        for number in started:
            self.start(job, job.ref.chunk(number), job.gen)

    async def _heads(self, job: Job, drawn: range) -> Sequence[int]:
        """Return the drawn chunks that no other chunk precedes in an order key.

        The process that unblocks one of the others starts it, or sends its message.
        """
        refs = [job.ref.chunk(number) for number in drawn]
        try:
            chunks = await read_chunks(self.rt.table, refs)
        except (PermanentError, *MALFORMED_ERRORS):
            return drawn  # the claim of each finds the row that cannot be read
        return [c.ref.chunk for c in chunks if c.blocked_by is None and is_drawn(c)]

    async def _job(self, backlog: Backlog) -> Job | None:
        """Return the job of a backlog; None: this worker can do nothing for it now."""
        try:
            job = await self.intake.jobs.recent(backlog.ref)
        except (SchemaTooNewError, PermanentError, *MALFORMED_ERRORS):
            return None
        if job is None or job.gen != backlog.gen or job.status is not JobStatus.RUNNING:
            return None
        if self.intake.pipeline_of(job) is None:
            await self.intake.note_left(job)
            return None
        return job

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def turn_of(each: Backlog | JobChunks) -> Turn:
    """Return the turn in which chunks of a backlog, or next chunks, start."""
    return each.priority if isinstance(each, Backlog) else each.turn
