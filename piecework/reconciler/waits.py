"""Wake the chunks of a job that wait long, and tell the steps of open questions.

A poll of the index of a marked job is one small read, whatever the number of chunks
that wait. The reconciler polls an index every 30 s, and reads two minutes ahead. SQS
delays each message until its chunk is due. So a chunk is not late by the pause between
two polls. The reconciler handles the steps and the end of a question up to a minute
late, but never early.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from piecework.aws.queue import Message
from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.moments import iso, moment
from piecework.domain.outcome import MAX_WAIT_IN_QUEUE_S
from piecework.domain.question import WaitRow
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.jobs.children import wake_for_child
from piecework.reconciler.pass_state import PassContext
from piecework.runtime import Runtime
from piecework.store.questions import read_question, write_step
from piecework.store.waits import WaitIndex

#: The states of a job in which its chunks may wait.
WAITS_IN = frozenset({JobStatus.RUNNING, JobStatus.PAUSED, JobStatus.FINALIZING})
#: Seconds between two polls of the index of a job.
POLL_S = 30.0
#: A poll reads what is due in the next 120 s, or in three passes if that is longer. A
#: process may die between two polls, and the next poll is still early enough.
AHEAD_S, PASSES_AHEAD = 120.0, 3


@dataclass(slots=True)
class Waits:
    """The polls of the indexes of a reconciler's jobs."""

    rt: Runtime
    _next: dict[JobRef, float] = field(default_factory=dict)

    def is_due(self, ref: JobRef, now: float) -> bool:
        """Return whether a poll of a known index is due on the loop's clock."""
        return ref in self._next and self._next[ref] <= now

    def forget(self, ref: JobRef) -> None:
        """Drop a job that has ended."""
        self._next.pop(ref, None)

    def next_poll(self, ref: JobRef) -> float | None:
        """Return when the next poll of an index is due; None: the job has no index."""
        return self._next.get(ref)

    async def poll(self, context: PassContext, job: Job, now: float) -> Counter[str]:
        """Handle what is due in the index of a job, if a poll is due.

        The chunks of a paused job leave the index without a message: its resume sends
        that. People may answer meanwhile, so the steps of questions go on.
        """
        actions: Counter[str] = Counter()
        if not job.has_waits or job.status not in WAITS_IN:
            self.forget(job.ref)
            return actions
        if self._next.get(job.ref, 0.0) > now:
            return actions
        index = WaitIndex(self.rt.table, self.rt.clock)
        before: list[WaitRow] | None = None
        while True:
            at = self.rt.clock()
            ahead = max(AHEAD_S, PASSES_AHEAD * self.rt.settings.reconcile_s)
            rows = await index.first_due(job.ref, iso(at + ahead))
            due = [row for row in rows if row.is_step and row.due_at <= iso(at)]
            # A question stays in the index until its end, because people find it there.
            # A sleep leaves the index early.
            ends = [
                row
                for row in rows
                if not (row.is_step or row.child)
                and (not row.question or row.due_at <= iso(at))
            ]
            children = [row for row in rows if row.child]
            for row in children:
                actions["children ended"] += await self._child(context, job, index, row)
            told = [await self._step(job, index, row, at) for row in due]
            woken = await self._wake(context, job, index, ends)
            actions["waits ended"] += woken
            actions["questions told"] += sum(told)
            # Entries of answered questions wake no chunk, and may fill more than one
            # read. Entries that a read returns again are of chunks of a newer version.
            if not (due or ends or children) or rows == before:
                break
            before = rows
        steps = [moment(row.due_at) - at for row in rows if row.question]
        self._next[job.ref] = now + max(min([POLL_S, *steps]), 0.0)
        return actions

    async def _wake(
        self,
        context: PassContext,
        job: Job,
        index: WaitIndex,
        rows: Sequence[WaitRow],
    ) -> int:
        """Take chunks out of the index, and send a message for each when it is due."""
        if not rows:
            return 0
        woken = await index.take_out(job.ref, rows, self.rt.settings.visibility_s)
        by_delay: dict[int, list[Message]] = defaultdict(list)
        for row in woken:
            context.quiet.wake(job.ref, keys.group_of(row.chunk))
            if job.status is JobStatus.PAUSED:
                continue
            ref = job.ref.chunk(row.chunk)
            delay = moment(row.due_at) - self.rt.clock()
            if delay > 0:
                by_delay[int(delay) + 1].append(Message.about(ref, row.gen))
            else:
                await context.dispatch(job, ref, row.gen)
        # A job whose pipeline is paused gets no pass that would send them.
        await context.send()
        for delay_s, messages in sorted(by_delay.items()):
            late = min(delay_s, MAX_WAIT_IN_QUEUE_S)
            await self.rt.work.send(messages, to=job.queue, delay_s=late)
        return len(woken)

    async def _child(
        self, context: PassContext, job: Job, index: WaitIndex, row: WaitRow
    ) -> int:
        """Wake the chunk whose child has ended; else drop the entry."""
        woken = await wake_for_child(self.rt, job, row.chunk, row.child, row.due_at)
        if not woken:
            await index.drop(job.ref, [row])
            return 0
        context.quiet.wake(job.ref, keys.group_of(row.chunk))
        return 1

    async def _step(self, job: Job, index: WaitIndex, row: WaitRow, now: float) -> int:
        """Take one step of a question; an entry without its question is removed."""
        table, chunk = self.rt.table, job.ref.chunk(row.chunk)
        question = await read_question(table, chunk, row.stage, row.question)
        if question is None or not await write_step(table, job, row, question, now):
            await index.drop(job.ref, [row])
            return 0
        return 1
