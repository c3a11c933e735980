"""Read the events of a job, and those of the environment and of the tenant."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.rows import EventRow
from piecework.errors import StoreError
from piecework.reading import Reading
from piecework.store.completion import all_chunks
from piecework.store.fleet_events import ENVIRONMENT, fleet_events
from piecework_orchestrator.reading.job_documents import Document, dead_letters_of
from piecework_orchestrator.reading.times import parse_span


async def job_events(
    rt: Reading, job: Job, claims: ClaimEvents | None = None
) -> list[Document]:
    """Return the events of a job, the oldest first: states, dead letters, redrives.

    Acts on a dependency and its breaker are among them, if chunks waited for it. A dead
    letter that cannot be read is left out.
    """
    reason = job.status_reason or {"at": "", "code": ""}
    moments: list[Document] = [
        {"at": at, "event": event, "facts": facts}
        for at, event, facts in (
            (job.created_at, "submitted", {"by": job.submitted_by}),
            (job.opened_at, "running", {"chunks": job.chunks}),
            (job.sent_at, "sent", {}),
            (reason["at"], "status reason", {"code": reason["code"]}),
            (job.finalizing_at, "join started", {"gen": job.gen}),
        )
        if at
    ]
    moments += [
        {"at": row.at, "event": row.event, "facts": row.facts}
        for row in await rt.jobs.events(job.ref)
    ]
    async for letter in dead_letters_of(rt).of_job(job.ref, []):
        facts = {"chunk": letter.chunk, "code": letter.error_code}
        moments.append({"at": letter.dead_lettered_at, "event": "died", "facts": facts})
    claims = await claim_events(rt, job) if claims is None else claims
    taken, waits = claims.takeovers, claims.waits
    names = {str(wait["facts"]["blocked_on"]) for wait in waits}
    moments += [*taken, *waits, *await dependency_events(rt, job, names)]
    return sorted(moments, key=lambda moment: str(moment["at"]))


@dataclass(slots=True)
class ClaimEvents:
    """The takeovers of a job, and the waits for dependencies, each once.

    Chunks that wait for the same reason from the same minute on are one event.
    """

    takeovers: list[Document] = field(default_factory=list)
    by_cause: dict[tuple[str, ...], Document] = field(default_factory=dict)

    def add(self, chunk: Chunk) -> None:
        """Add the claims of a chunk."""
        for entry in chunk.history:
            at, code = str(entry["to"]), str(entry.get("code", ""))
            if entry["end"] == "lost":
                facts = {"chunk": chunk.ref.chunk, "worker": entry.get("worker", "")}
                self.takeovers.append({"at": at, "event": "taken over", "facts": facts})
            elif entry["end"] == "deferred":
                name = str(entry.get("blocked_on", ""))
                started = {"code": code, "blocked_on": name, "chunks": 0}
                wait = self.by_cause.setdefault(
                    (at[:16], code, name), {"at": at, "event": "wait", "facts": started}
                )
                wait["at"] = min(wait["at"], at)
                wait["facts"]["chunks"] += 1

    @property
    def waits(self) -> list[Document]:
        """The waits."""
        return list(self.by_cause.values())


async def claim_events(rt: Reading, job: Job) -> ClaimEvents:
    """Read the claims of all chunks of a job."""
    found = ClaimEvents()
    async for chunk in all_chunks(rt.table, job.ref, job.chunks):
        found.add(chunk)
    return found


# ── the environment and the tenant ────────────────────────────────────────────


async def fleet_documents(rt: Reading, since: str = "") -> list[Document]:
    """Return the events of the environment and of the tenant, the newest first.

    `since`: a span of time, such as `1d`; empty: all that are kept.

    Raises:
        UsageError: `cli.usage.invalid`: not a span.
    """
    after = iso(rt.clock() - parse_span(since)) if since else ""
    found = await environment_events(rt, after)
    found += await fleet_events(rt.table, rt.settings.tenant, after)
    return sorted(documents(found), key=lambda one: str(one["at"]), reverse=True)


async def dependency_events(
    rt: Reading, job: Job, names: Collection[str]
) -> list[Document]:
    """Return the events of the named dependencies during a job."""
    if not names:
        return []
    until = job.finished_at if job.status.ended else ""
    found = await environment_events(rt, job.created_at, until)
    return documents([row for row in found if row.facts.get("dependency") in names])


async def environment_events(
    rt: Reading, since: str, until: str = ""
) -> list[EventRow]:
    """Return the events of the environment; none, if the role is limited to a tenant.

    Raises:
        StoreError: The table cannot be read.
    """
    try:
        return await fleet_events(rt.table, ENVIRONMENT, since, until)
    except StoreError as error:
        if error.code != "aws.access.denied":
            raise
        return []


def documents(rows: Sequence[EventRow]) -> list[Document]:
    """Return events as `jobs events` shows them."""
    return [{"at": row.at, "event": row.event, "facts": row.facts} for row in rows]
