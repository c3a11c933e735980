"""Accept that newer code goes on with the chunks that it has stopped."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.states import ChunkStatus
from piecework.errors import UsageError
from piecework.explain.changed import (
    acts_of,
    counted,
    is_held_again,
    is_stopped,
    stop_document,
)
from piecework.explain.situation import if_readable
from piecework.runtime import Runtime
from piecework.settings import Settings, broken_bounds
from piecework.store.checkpoints import read_work
from piecework.store.completion import all_chunks, read_chunk
from piecework.store.workers import read_reports

#: Stopped chunks whose ledgers are read for a preview: one request each.
MOST_READ = 200


@dataclass(frozen=True, slots=True)
class Preview:
    """What an acceptance does.

    Attributes:
        waiting: The stopped chunks that go on by themselves.
        dead: Those that are dead letters, and need a redrive.
        kinds: What the code before has done in them, by kind, with what an acceptance
            does to each.
        exact: Whether all of them were read; else the first `MOST_READ`.
        first: The first of them: what the old code did, and what stops the new one.
    """

    waiting: int
    dead: int
    kinds: list[Any]
    exact: bool
    first: dict[str, Any] | None

    @property
    def document(self) -> dict[str, Any]:
        """The preview as a document."""
        return {
            "waiting": self.waiting,
            "dead": self.dead,
            "kinds": self.kinds,
            "exact": self.exact,
            "first": self.first,
        }


async def stopped_chunks(rt: Runtime, job: Job) -> AsyncIterator[Chunk]:
    """Yield the chunks that newer code has stopped, and the join if it has.

    One that a worker holds again is among them: it stops once more.
    """
    async for chunk in all_chunks(rt.table, job.ref, job.chunks):
        if is_stopped(chunk) or is_held_again(chunk):
            yield chunk
    join = await read_chunk(rt.table, job.ref.chunk(keys.JOIN_CHUNK))
    if join is not None and (is_stopped(join) or is_held_again(join)):
        yield join


async def preview(rt: Runtime, job: Job) -> Preview:
    """Return what an acceptance does to the stopped chunks of a job."""
    waiting = dead = read = 0
    acts, first = [], None
    async for chunk in stopped_chunks(rt, job):
        is_dead = chunk.status is ChunkStatus.DEAD
        waiting, dead = waiting + (not is_dead), dead + is_dead
        if read < MOST_READ:
            work = await read_work(rt.table, chunk.ref, chunk)
            acts += list(acts_of(work, chunk.gen))
            first = first or stop_document(chunk, work)
            read += 1
    exact = read == waiting + dead
    return Preview(
        waiting, dead, counted(acts, "accepted", lambda act: act.accepted), exact, first
    )


async def accept_changes(
    rt: Runtime, job: Job, *, actor: str, reason: str, code_version: str = ""
) -> Job:
    """Let chunks of a job go on by newer code; return the job.

    What earlier claims did until now stops no chunk any more. A chunk that waits goes
    on at its next claim; a dead letter needs a redrive. `code_version`: only this
    version goes on; empty: each one.

    Raises:
        UsageError: `cli.reason.missing`; `cli.usage.invalid`: no worker can have the
            version; `job.changes.none`: no chunk is stopped.
    """
    require_reason(reason)
    require_version(code_version)
    if not [chunk async for chunk in stopped_chunks(rt, job)]:
        message = f"Newer code has stopped no chunk of job {job.ref.job}."
        step = f"`piecework jobs explain {job.ref.job}` says what it waits for."
        raise UsageError(message, code="job.changes.none", next_step=step)
    facts = {
        "changes_accepted_at": iso(rt.clock()),
        "changes_accepted_by": actor,
        "changes_accepted_why": reason,
        "changes_accepted_for": code_version,
    }
    await rt.transitions.accept_changes(job.ref, facts)
    told = {"actor": actor, "reason": reason}
    told |= {"code_version": code_version} if code_version else {}
    await rt.jobs.record(job.ref, "changes accepted", told)
    return await rt.jobs.read(job.ref) or job


async def unreported(rt: Runtime, job: Job, code_version: str) -> str:
    """Return a warning if no worker has reported the version; empty: one has.

    It is empty, too, if the operator cannot read the reports.
    """
    reports = await if_readable(read_reports, rt.table)
    if not code_version or reports is None:
        return ""
    versions = {each.code_versions.get(job.pipeline, "") for each in reports}
    if code_version in versions:
        return ""
    known = ", ".join(sorted(versions - {""})) or "none"
    return (
        f"no worker with pipeline {job.pipeline} has reported code version "
        f"{code_version}; reported: {known}"
    )


def require_version(code_version: str) -> None:
    """Refuse a text that no worker can have as its code version.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    bounds = Settings.__dataclass_fields__["code_version"].metadata
    for broken in broken_bounds(code_version, bounds):
        step = "Give the version that `piecework jobs explain JOB` names."
        raise UsageError(f"The code version {broken}.", next_step=step)


def require_reason(reason: str) -> None:
    """Refuse an acceptance without a reason, which the record keeps.

    Raises:
        UsageError: `cli.reason.missing`.
    """
    if not reason.strip():
        message = (
            "`jobs accept-changes` requires --reason, which is kept in the record."
        )
        step = "Add --reason 'why the new code may go on'."
        raise UsageError(message, code="cli.reason.missing", next_step=step)
