"""Read the batches of a tenant: what is gathered, what is open, what has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from piecework.domain.batch import (
    GATHERED,
    AskedRow,
    BatchPhase,
    CollectorRow,
    Member,
    PlannedRow,
)
from piecework.domain.moments import iso, moment
from piecework.resilience.batching import usual_s
from piecework.store.batch_reads import BatchReads, Place
from piecework.store.table import Table

#: The phase of a batch whose provider cancels it.
CANCELLING: Final = "CANCELLING"
#: Gathered requests of a model that are read: one page.
MOST_ASKED: Final = 2_000
#: Models whose batches are read for one job; each costs two requests.
MOST_MODELS: Final = 4
#: Jobs of a batch that a list names.
NAMED_JOBS: Final = 100


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """A batch, or the gathered requests of a model.

    Attributes:
        row: The batch; None: the requests are gathered.
        asked: The first gathered requests; empty: it is a batch.
        complete: Whether these are all requests.
        members: The rows of each chunk, by job; empty of a batch that has ended.
    """

    place: Place
    collector: CollectorRow
    now: float
    row: PlannedRow | None = None
    asked: Sequence[AskedRow] = ()
    complete: bool = True
    members: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    @property
    def phase(self) -> str:
        """Its phase; of a batch that has ended: why."""
        if self.row is None:
            return GATHERED
        is_cancelled = self.row.is_cancelled and not self.row.ended_at
        return CANCELLING if is_cancelled else self.row.stored_phase

    @property
    def is_open(self) -> bool:
        """Whether it may still answer."""
        return self.row is None or not self.row.ended_at

    @property
    def ended_at(self) -> str:
        """When it ended; empty: it has not."""
        return "" if self.row is None else self.row.ended_at

    @property
    def name(self) -> str:
        """What names it for a command: the provider's id, or its digest."""
        return "" if self.row is None else self.row.id or self.row.digest

    @property
    def rows(self) -> int:
        """The number of its rows, or of those that were read."""
        return sum(a.rows for a in self.asked) if self.row is None else self.row.rows

    @property
    def since(self) -> str:
        """When it was planned, or when the first of its requests was made."""
        if self.row is not None:
            return self.row.planned_at
        return min((each.asked_at for each in self.asked), default="")

    @property
    def until(self) -> str:
        """When it is cancelled, and its calls go direct."""
        if self.row is not None:
            return self.row.until
        return min((each.stored_until for each in self.asked), default="")

    @property
    def next_at(self) -> str:
        """When a collector looks at it next; empty: it has ended."""
        if self.row is None:
            return self.collector.next_at
        return (self.row.next_at or self.collector.next_at) if self.is_open else ""

    @property
    def expected_at(self) -> str:
        """When it is probably over: 95 of 100 of the last 20 took no longer.

        Empty: no batch of the model has ended so far.
        """
        took = self.collector.durations
        if self.row is None or not self.is_open or not took:
            return ""
        return iso(moment(self.row.planned_at) + usual_s(took))

    @property
    def why(self) -> str:
        """Why it waits, in one sentence; of one that has ended: its end."""
        row, collector = self.row, self.collector
        if row is not None and row.ended_at:
            return f"It ended at {row.ended_at} as {row.stored_phase}."
        if self.is_stranded:
            return f"No worker has looked since {collector.next_at}: only workers do."
        if collector.error:
            again = f"and looks again at {collector.next_at}"
            return f"Its collector failed with {collector.error}, {again}."
        if row is None:
            when = f"A collector makes batches of them at {collector.next_at}"
            return f"{when}; too few for one go direct."
        return self._why_open(row)

    def _why_open(self, row: PlannedRow) -> str:
        if row.wanted:
            return f"An operator, {row.wanted_by}, wants this: {row.wanted}."
        if row.stored_phase == BatchPhase.PLANNED:
            return "Its creation is in doubt: a collector looks for it at the provider."
        if self.phase == CANCELLING:
            return "It took too long: its provider cancels it."
        return f"Its provider answers it; it is asked again at {row.next_at}."

    @property
    def is_stranded(self) -> bool:
        """Whether a collector is needed, and no worker is it."""
        return self.is_open and self.collector.is_late(self.now)

    def chunks_of(self, job: str) -> Mapping[int, int]:
        """Return the chunks of a job that it answers, with the rows of each."""
        return self.members.get(job, {})

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """Its jobs, the one with the most rows first; of one that has ended: names."""
        if self.row is not None and self.row.ended_at:
            named = self.row.jobs if isinstance(self.row.jobs, list) else []
            return [{"job": str(job)} for job in named]
        found = [
            {"job": job, "chunks": len(chunks), "rows": sum(chunks.values())}
            for job, chunks in self.members.items()
        ]
        return sorted(found, key=lambda each: (-each["rows"], each["job"]))

    @property
    def document(self) -> dict[str, Any]:
        """It as the command line, the client and the page show it."""
        row, jobs = self.row, self.jobs
        return {
            "model": (row or self.collector).model,
            "billed_as": self.collector.billed,
            "provider": (row or self.collector).provider,
            "batch": "" if row is None else row.id,
            "digest": "" if row is None else row.digest,
            "phase": self.phase,
            "rows": self.rows,
            "complete": self.complete,
            "answered": 0 if row is None else row.answered,
            "failed": 0 if row is None else row.failed,
            "since": self.since,
            "expected_at": self.expected_at,
            "until": self.until,
            "next_at": self.next_at,
            "ended_at": self.ended_at,
            "jobs": jobs[:NAMED_JOBS],
            "more_jobs": max(0, len(jobs) - NAMED_JOBS),
            "why": self.why,
        }


async def read_batches(
    table: Table, tenant: str, now: float, *, ended: int = 0, models: int = 0
) -> list[BatchFacts]:
    """Return what is gathered and the batches of a tenant, those that end first ahead.

    Those that have ended follow, the newest first.

    `ended`: so many that have ended, of each model, too. `models`: of so many models
    only, and of none with nothing open; 0: of all.
    """
    reads, found = BatchReads(table), list[BatchFacts]()
    collectors = [each async for each in reads.collectors(tenant)]
    if models:
        collectors = [each for each in collectors if each[1].next_at][:models]
    for place, collector in collectors:
        rows, asked = await asyncio.gather(
            reads.open(place), reads.first_asked(place, MOST_ASKED)
        )
        known = [(row, row.members) for row in rows]
        # A collector that died had planned them, and not removed them.
        planned = {m for _, members in known for m in members} if asked else set()
        left = [each for each in asked if each.member not in planned]
        found += [
            BatchFacts(place, collector, now, row, members=rows_of(members))
            for row, members in known
        ]
        if left:
            members = rows_of([each.member for each in left])
            complete = len(asked) < MOST_ASKED
            found.append(
                BatchFacts(
                    *(place, collector, now, None, left),
                    complete=complete,
                    members=members,
                )
            )
        if ended:
            last = await reads.ended(place, ended)
            found += [BatchFacts(place, collector, now, row) for row in last]
    over = [each for each in found if not each.is_open]
    return [
        *sorted((each for each in found if each.is_open), key=lambda each: each.until),
        *sorted(over, key=lambda each: each.ended_at, reverse=True),
    ]


def rows_of(members: Iterable[Member]) -> dict[str, dict[int, int]]:
    """Return the rows of each chunk, by job."""
    found = dict[str, dict[int, int]]()
    for each in members:
        chunks = found.setdefault(each.job, {})
        chunks[each.chunk] = chunks.get(each.chunk, 0) + each.rows
    return found
