"""The next chunks of order keys, which this worker has unblocked and will start itself.

They need no message. The worker starts them in their job's turn, as it starts messages
and backlogs. So a key with many chunks keeps no slot from other jobs. A worker that
takes no new chunk sends them as messages. If it dies, the reconciler sends them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from piecework.aws.queue import Message
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.refs import ChunkRef, JobRef
from piecework.jobs.order import send_unblocked
from piecework.runtime import Runtime
from piecework_worker.turns import NEXT, Turn


@dataclass(frozen=True, slots=True)
class JobChunks:
    """The unblocked chunks of one job, each with its generation."""

    job: Job
    chunks: deque[tuple[ChunkRef, int]] = field(default_factory=deque)

    @property
    def ref(self) -> JobRef:
        """The job."""
        return self.job.ref

    @property
    def sk(self) -> str:
        """The sort key that breaks a tie: before that of any backlog."""
        return ""

    @property
    def turn(self) -> Turn:
        """Whose turn it is when these chunks start."""
        return NEXT if self.job.backlog_start is None else self.job.priority


@dataclass(slots=True)
class NextChunks:
    """The unblocked chunks that wait for a slot of this worker.

    Attributes:
        wake: Set when the receiver must look again for chunks without a message.
        closed: Returns whether the worker takes no new chunk.
    """

    wake: asyncio.Event = field(default_factory=asyncio.Event)
    closed: Callable[[], bool] = lambda: False
    _jobs: dict[JobRef, JobChunks] = field(default_factory=dict)

    async def add(self, rt: Runtime, job: Job, chunk: Chunk) -> None:
        """Let this worker start an unblocked chunk; send its message if it cannot."""
        if self.closed() or chunk.retry_at:
            await send_unblocked(rt, chunk, job.queue)
            return
        known = self._jobs.get(job.ref)
        waiting = JobChunks(job, known.chunks if known else deque())
        self._jobs[job.ref] = waiting  # with the latest priority
        waiting.chunks.append((chunk.ref, chunk.gen))
        self.wake.set()

    @property
    def jobs(self) -> list[JobChunks]:
        """The jobs with waiting chunks."""
        return list(self._jobs.values())

    def take(self, waiting: JobChunks, most: int) -> Iterator[tuple[ChunkRef, int]]:
        """Remove and yield up to `most` chunks of a job."""
        for _ in range(min(most, len(waiting.chunks))):
            yield waiting.chunks.popleft()
        if not waiting.chunks:
            self._jobs.pop(waiting.ref, None)

    async def send_all(self, rt: Runtime) -> None:
        """Send the waiting chunks as messages, for other workers."""
        jobs = self.jobs
        self._jobs.clear()
        for each in jobs:
            messages = [Message.about(ref, gen) for ref, gen in each.chunks]
            await rt.work.send(messages, to=each.job.queue)
