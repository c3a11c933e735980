"""Delete the jobs whose retention is over; keep those with an open dead letter.

Rows of a job that lives longer than they do are renewed.

The end of a job lists it under the time at which it expires. A look at that index is
one small read, whatever the number of jobs. The job's own row decides: a job that was
reopened, or ended again, has another time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.job import Job
from piecework.domain.moments import iso, moment
from piecework.domain.records import MALFORMED_ERRORS
from piecework.domain.retention import DAY_S
from piecework.domain.states import JobStatus
from piecework.errors import PieceworkError
from piecework.jobs.children import open_children
from piecework.jobs.deletion import sweep_again
from piecework.jobs.renewal import renew_rows, renewal_is_due
from piecework.runtime import Runtime
from piecework.store.dead_letters import DeadLetters, is_open
from piecework.store.deletions import RETENTION_ACTOR, Deletions, Expiry

#: Seconds between two looks at the index. A retention is counted in days.
LOOK_S = 600.0
#: Entries of the index that one look handles.
HANDLED = 25
#: Seconds after which a job with an open dead letter is looked at again.
KEPT_S = float(DAY_S)
#: Rows and objects that a second sweep deletes at most.
SWEPT = 5_000


@dataclass(frozen=True, slots=True)
class Kept:
    """The job stays for now.

    Attributes:
        until: When it is looked at again, in seconds since 1970.
        letters: Its open dead letters; 0: they were settled after its end.
    """

    until: float
    letters: int


@dataclass(frozen=True, slots=True)
class Expired:
    """The job is deleted now."""


def expiry_of(
    job: Job, letters: Sequence[DeadLetterRow], *, now: float, days: int
) -> Kept | Expired:
    """Decide about an ended job whose time in the index has come.

    Its retention begins when it has ended and its last dead letter is settled. A dead
    letter with a damaged state counts as open.
    """
    open_ = sum(is_open(letter.item) for letter in letters)
    if open_:
        return Kept(now + KEPT_S, open_)
    ended_at = max([job.finished_at, *(letter.closed_at for letter in letters)])
    until = moment(ended_at) + days * DAY_S
    return Kept(until, 0) if until > now else Expired()


async def is_needed(rt: Runtime, job: Job) -> bool:
    """Return whether a child outlives its retention: its parent is not deleted yet.

    The parent may run again and read it. A job with a child that runs stays, too.
    """
    parent = None if job.parent is None else await rt.jobs.read(job.parent)
    if parent is not None and not parent.status.gone:
        return True
    return bool(await open_children(rt, job.ref))


@dataclass(slots=True)
class Expiries:
    """The jobs that expire, as one reconciler looks at them."""

    rt: Runtime
    _next: float = 0.0
    #: Entries of the last look that cannot be handled; the next one reads beyond them.
    _failed: int = 0

    async def run(self, now: float) -> Counter[str]:
        """Handle the due entries of the index, if a look is due on the loop's clock."""
        actions: Counter[str] = Counter()
        if now < self._next:
            return actions
        self._next = now + LOOK_S
        most = HANDLED + self._failed
        async for expiry in Deletions(self.rt.table, self.rt.clock).due(most):
            try:
                actions[await self._handle(expiry)] += 1
            except (PieceworkError, *MALFORMED_ERRORS):  # newer, or damaged
                actions["failed"] += 1
        self._failed = actions["failed"]
        if actions.total() - self._failed >= HANDLED:
            self._next = 0.0
        return actions

    async def _handle(self, expiry: Expiry) -> str:
        rt, deletions = self.rt, Deletions(self.rt.table, self.rt.clock)
        job = await rt.jobs.read(expiry.ref)
        if job is None or not (job.status.ended or job.status is JobStatus.DELETED):
            await deletions.unlist(expiry)
            return "old expiry dropped"
        if job.listed_at != expiry.at:
            # A renewal moved the time while the job ended: both are read, one is stale.
            await deletions.relist(job, expiry)
            return "old expiry dropped"
        if job.status is JobStatus.DELETED:
            if await sweep_again(rt, job, SWEPT):
                await deletions.unlist(expiry)
            return "deleted job swept again"
        if job.delete_after and job.delete_after <= iso(rt.clock()):
            return await self._end_retention(job, deletions)
        if renewal_is_due(job, rt.clock()):
            await renew_rows(rt, job)
            self._next = 0.0  # until the partitions of this sweep are done
            return "rows renewed"
        return "old expiry dropped"

    async def _end_retention(self, job: Job, deletions: Deletions) -> str:
        """Delete a job whose retention is over, or keep it for now."""
        rt, days = self.rt, self.rt.settings.job_retention_days
        if not days:
            await deletions.stay(job)
            return "expiry postponed"
        if await is_needed(rt, job):
            await deletions.postpone(job, rt.clock() + KEPT_S, 0)
            return "expiry postponed"
        store = DeadLetters(rt.dead_letters, rt.settings, rt.clock)
        damaged: list[DeadLetterRow] = []
        letters = [letter async for letter in store.of_job(job.ref, damaged)]
        letters += damaged
        match expiry_of(job, letters, now=rt.clock(), days=days):
            case Kept(until, letters_open):
                await deletions.postpone(job, until, letters_open)
                return "expiry postponed"
            case Expired():
                reason = f"{days} days after its end"
                await deletions.begin(job, RETENTION_ACTOR, reason)
                return "job expired"
