"""Write the list of jobs, once or whenever it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.errors import UsageError
from piecework.reading import Reading
from piecework_orchestrator.cli.options import Format, JobOrder, take_first
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.table import Document
from piecework_orchestrator.cli.views.jobs import job_columns, seconds_taken
from piecework_orchestrator.reading.job_list import JobFilter, read_jobs

#: Seconds between two reads of a watched list. A read costs about a read unit a job.
POLL_S = 3.0
#: Moves the cursor to the first line, and erases the screen below it.
CLEARED = "\x1b[H\x1b[J"


@dataclass(slots=True)
class JobList:
    """A list of jobs in the terminal, or as documents."""

    rt: Reading
    out: Output
    wanted: JobFilter
    order: JobOrder
    limit: int

    async def write(self, *, watch: bool) -> None:
        """Write the list; `watch`: again when it changes, until all jobs have ended.

        Raises:
            UsageError: `cli.usage.invalid`: a format that cannot be continued.
        """
        if watch and self.out.format in {Format.JSON, Format.YAML}:
            message = "--watch writes a line for each change, and requires -o jsonl."
            raise UsageError(message, next_step="Remove -o, or use -o jsonl.")
        before = await self.write_once({}, clear=False)
        while watch and any(
            JobStatus(each["status"]).is_open for each in before.values()
        ):
            await asyncio.sleep(POLL_S)
            before = await self.write_once(before, clear=True)

    async def write_once(
        self, before: dict[str, Document], *, clear: bool
    ) -> dict[str, Document]:
        """Write the list, or the lines that differ from before; return it by job."""
        too_new: list[JobRef] = []
        found, more = await self.read(too_new)
        now = {str(job["job"]): job for job in found}
        if clear and now == before:
            return now
        if clear and self.out.stdout.isatty():
            self.out.stdout.write(CLEARED)
        if clear and not self.out.table:
            found = [job for name, job in now.items() if before.get(name) != job]
        tags = any("tags" in job for job in found)
        columns = job_columns(self.rt.clock(), tags=tags)
        self.out.rows(found, columns, self.empty_remark())
        self.out.stdout.flush()  # a pipe may be read while the list is watched
        if more and self.out.table:
            self.out.say(f"only {self.limit} are listed; --limit 0 lists all")
        if too_new:
            names = ", ".join(ref.job for ref in too_new)
            self.out.say(f"not listed, because a newer version wrote them: {names}")
        return now

    async def read(self, too_new: list[JobRef]) -> tuple[list[Any], bool]:
        """Return the jobs in order, and whether there are more than the limit."""
        jobs = read_jobs(self.rt, self.wanted, too_new)
        if self.order is JobOrder.CREATED:
            return await take_first(jobs, self.limit)
        found, _ = await take_first(jobs, 0)  # the last read may be the first in order
        found.sort(key=sort_key(self.order, self.rt.clock()))
        more = bool(self.limit) and len(found) > self.limit
        return found[: self.limit or None], more

    def empty_remark(self) -> str:
        """Return the remark about an empty list."""
        if self.wanted == JobFilter():
            return "there are no jobs; next: piecework submit MODULE:PIPELINE FILE"
        return "no job matches; next: piecework jobs list"


def sort_key(order: JobOrder, now: float) -> Callable[[Document], Any]:
    """Return the key of an order; jobs with the same key stay the newest first."""
    statuses = [str(status) for status in JobStatus]
    keys: dict[JobOrder, Callable[[Document], Any]] = {
        JobOrder.STATUS: lambda job: statuses.index(job["status"]),
        JobOrder.PIPELINE: lambda job: job["pipeline"],
        JobOrder.OPEN: lambda job: -(job["chunks"] - job["ended_chunks"]),
        JobOrder.TOOK: lambda job: (
            0.0 if JobStatus(job["status"]).gone else -seconds_taken(job, now)
        ),
    }
    return keys[order]
