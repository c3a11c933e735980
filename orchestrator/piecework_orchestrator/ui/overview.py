"""Read what the first page shows: the jobs, the fleet, and what needs an operator."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from piecework.aws.work_queues import NOT_DEPLOYED
from piecework.domain import keys
from piecework.domain.moments import iso
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.rows import WorkerRow
from piecework.errors import SchemaTooNewError, StoreError
from piecework.explain.situation import if_readable, read_situation
from piecework.explain.view import View
from piecework.resilience.breaker import BreakerPhase
from piecework.runtime import Runtime
from piecework.store.breakers import FleetRecord, read_fleet
from piecework.store.outbox import webhooks_of
from piecework.store.workers import read_reports
from piecework_orchestrator.client import Client
from piecework_orchestrator.cost.job import bill_for_page, is_recorded
from piecework_orchestrator.dead_letters.letters import group_by_cause
from piecework_orchestrator.operate import pipelines
from piecework_orchestrator.reading.job_documents import (
    Document,
    explanation,
    job_facts,
)
from piecework_orchestrator.reading.job_list import progress_of
from piecework_orchestrator.reading.selection import left_out
from piecework_orchestrator.ui.job_search import JobSearch
from piecework_orchestrator.ui.pacing import Pacing

#: Read units a second of the first page, of each explained job, and of their costs.
PAGE_UNITS, EXPLAIN_UNITS, COST_UNITS = 0.4, 0.05, 0.2
#: The newest jobs that are listed, and active ones that are explained.
MAX_JOBS, MAX_EXPLAINED = 50, 5
#: The newest jobs, deleted ones included, that are read to find those.
MAX_READ: Final = 500
#: Chunks of today's jobs whose cost is read; a sixteenth of a read unit each.
MAX_COST_CHUNKS: Final = 20_000
MINUTE_S: Final = 60
#: Seconds for which an ended job is shown as it was read: it may be retried elsewhere.
#: And an open one: a search reads the same jobs again at once.
ENDED_S, OPEN_S = 300.0, 0.4


@dataclass(slots=True)
class Overview:
    """The first page of one start; all open pages share its reads."""

    client: Client
    pacing: Pacing
    #: Jobs, each with the time until which it is shown as it was read.
    _known: dict[str, tuple[float, Document]] = field(default_factory=dict)

    @property
    def rt(self) -> Runtime:
        """The deployment."""
        return self.client.runtime

    async def read(self, wanted: JobSearch) -> Document:
        """Return what the page shows, with the jobs that match."""
        parts: Document = await self.pacing.get("overview", self._read, PAGE_UNITS)
        jobs = parts["jobs"]
        shown = jobs, parts["more"]
        if not wanted.matches_all:
            key = ("jobs", wanted)
            shown = await self.pacing.get(key, lambda: self._jobs(wanted), PAGE_UNITS)
        active = [job for job in jobs if not job["ended"]]
        explained = [await self._explain(job) for job in active[:MAX_EXPLAINED]]
        cost = await self.pacing.get("cost", lambda: self._cost(jobs), COST_UNITS)
        rates = [each["rate"] for each in explained if each["rate"] is not None]
        waits = [each["due_since"] for each in explained if each["due_since"]]
        return {
            **parts,
            "shown": shown[0],
            "more_shown": shown[1],
            "search": wanted,
            "known_pipelines": sorted({*pipelines_of(parts), wanted.pipeline} - {""}),
            "explained": {each["job"]: each for each in explained},
            "active": len(active),
            "rate": sum(rates) if rates else None,
            "due_since": iso(min(waits)) if waits else "",
            "cost": cost,
        }

    def refresh_s(self) -> float:
        """Return the seconds after which the page is read again."""
        return self.pacing.for_s("overview")

    async def _read(self) -> Document:
        """Read the jobs, the causes of open dead letters, and the fleet."""
        (jobs, more), (causes, left), fleet, reports, hooks = await asyncio.gather(
            self._jobs(JobSearch()),
            read_causes(self.client),
            if_readable(read_fleet, self.rt.table),
            if_readable(read_reports, self.rt.table),
            if_readable(webhooks_of, self.rt.table, self.rt.settings.tenant),
        )
        now = self.rt.clock()
        workers = [worker_document(row, now) for row in reports or ()]
        states = Counter(worker["state"] for worker in workers)
        alive = [worker for worker in workers if worker["state"] == "ALIVE"]
        failed = [
            {"webhook": hook.name, "error": hook.last_error, "at": hook.failed_at}
            for hook in hooks or ()
            if hook.failed_at
        ]
        parts = {
            "the dead letters of all jobs": causes,
            "workers": reports,
            "breakers and limits": fleet,
            "webhooks": hooks,
        }
        return {
            "jobs": jobs,
            "more": more,
            "causes": causes,
            "left_out": left,
            "letters": sum(cause["count"] for cause in causes or ()),
            "queue_depth": await self._depth(reports or ()),
            "dependencies": None if fleet is None else dependencies(fleet),
            "workers": None if reports is None else states,
            "busy": sum(worker["in_progress"] for worker in alive),
            "slots": sum(worker["max_chunks"] for worker in alive),
            "failed_webhooks": failed,
            "pipelines": await self._pipelines(alive, jobs),
            "unreadable": [name for name, part in parts.items() if part is None],
        }

    async def _depth(self, reports: Sequence[WorkerRow]) -> int:
        """Return the messages of the default queue, and of those with workers."""
        served = {queue for report in reports for queue in report.queues}
        names = {"", *served} - {keys.DEFAULT_QUEUE}
        return sum(await asyncio.gather(*map(self._depth_of, sorted(names))))

    async def _depth_of(self, name: str) -> int:
        """Return the messages of a queue; 0: it was removed after the report."""
        try:
            queue = await self.rt.work.named(name)
        except StoreError as error:
            if error.code != NOT_DEPLOYED:
                raise
            return 0
        return await queue.depth()

    async def _pipelines(
        self, workers: Sequence[Document], jobs: Sequence[Document]
    ) -> list[Document]:
        """Return the pipelines of live workers, of listed jobs, and of pauses."""
        tenant = self.rt.settings.tenant
        return pipelines.documents(
            tenant,
            Counter(chain.from_iterable(w["pipelines"] for w in workers)),
            Counter(job["pipeline"] for job in jobs if not job["ended"]),
            {s.pipeline: s async for s in self.rt.pipelines.of_tenant(tenant)},
        )

    async def _jobs(self, wanted: JobSearch) -> tuple[list[Document], bool]:
        """Return the jobs that match, the newest first, and whether more may do so."""
        found: list[Document] = []
        left, since = MAX_READ, wanted.since_at(self.rt.clock())
        tenant, pipeline = self.rt.settings.tenant, wanted.pipeline or "*"
        async for ref in self.rt.jobs.listed(tenant, pipeline, since):
            if len(found) == MAX_JOBS or not left:
                return found, True
            if (job := await self._job(ref)) and wanted.matches(job):
                found.append(job)
            left -= 1
        return found, False

    async def _job(self, ref: JobRef) -> Document:
        """Return a job with its progress; empty: it cannot be read."""
        now = self.rt.clock()
        until, known = self._known.get(ref.job, (0.0, {}))
        if now < until:
            return known
        try:
            job = await self.rt.jobs.read(ref)
        except SchemaTooNewError:
            return {}
        if job is None or job.status.gone:
            self._known[ref.job] = now + ENDED_S, {}
            return {}
        facts = job_facts(job, now) | await progress_of(self.rt, job)
        facts["ended"] = job.status.ended
        facts["effects_in_doubt"] = job.effects_in_doubt
        self._known[ref.job] = now + (ENDED_S if job.status.ended else OPEN_S), facts
        return facts

    def forget(self) -> None:
        """Read the jobs again: an operator changed one."""
        self._known.clear()
        self.pacing.forget("overview")
        self.pacing.forget_kind("jobs")

    async def _explain(self, job: Document) -> Document:
        """Return the first finding of a job, its throughput, and what is overdue."""
        ref = JobRef(self.rt.settings.tenant, job["job"])

        async def read() -> Document:
            record = await self.rt.jobs.read(ref)
            if record is None:
                return {"job": ref.job, "finding": None, "rate": None, "due_since": 0.0}
            situation = await read_situation(self.rt, record)
            view, explained = View(situation), explanation(situation)
            rate = situation.throughput and situation.throughput.rate * MINUTE_S
            due = [view.due_since(chunk) for chunk in view.due]
            return {
                "job": ref.job,
                "finding": explained["findings"][0],
                "rate": rate,
                "due_since": min(due, default=0.0),
            }

        return await self.pacing.get(
            ("explained", job["job"]), read, EXPLAIN_UNITS, state=job["status"]
        )

    async def _cost(self, jobs: Sequence[Document]) -> Document:
        """Return what the jobs of the day have cost, and how many are not counted."""
        today = iso(self.rt.clock())[:10]
        of_day = [j for j in jobs if not j["ended"] or j["finished_at"][:10] == today]
        total, counted, left = 0.0, 0, MAX_COST_CHUNKS
        for job in of_day:
            if job["chunks"] <= left:
                left -= job["chunks"]
                usd = await self._cost_of(job)
                total += usd or 0.0
                counted += usd is not None
        return {"usd": total, "jobs": counted, "others": len(of_day) - counted}

    async def _cost_of(self, job: Document) -> float | None:
        """Return the cost of a job, of an ended one once; None: not known."""
        ref = JobRef(self.rt.settings.tenant, job["job"])
        final = job["ended"] and is_recorded(job["finished_at"], self.rt.clock())

        async def read() -> float | None:
            record = await self.rt.jobs.read(ref)
            if record is None:
                return None
            bill = await bill_for_page(self.rt, record)
            return None if bill is None else float(bill["total_usd"])

        return await self.pacing.get(
            ("cost", job["job"]),
            read,
            COST_UNITS,
            state=(job["gen"], job["status"], final),
            final=final,
        )


async def read_causes(client: Client) -> tuple[list[Document] | None, str]:
    """Return the causes of open dead letters, and which letters cannot be read."""
    damaged: list[ChunkRef] = []
    letters = await if_readable(client.dead_letters, unreadable=damaged)
    return None if letters is None else group_by_cause(letters), left_out(damaged)


def pipelines_of(parts: Document) -> set[str]:
    """Return the pipelines that the first page names."""
    of_jobs = {job["pipeline"] for job in parts["jobs"]}
    return of_jobs | {each["pipeline"] for each in parts["pipelines"]}


def dependencies(fleet: FleetRecord) -> list[Document]:
    """Return the dependencies with a breaker or a limit, those with a problem first."""
    found = []
    for name in sorted({*fleet.breakers, *fleet.quotas}):
        breaker, quota = fleet.breakers.get(name), fleet.quotas.get(name)
        is_open = breaker is not None and breaker.phase is not BreakerPhase.CLOSED
        found.append(
            {
                "name": name,
                "open": is_open,
                "code": breaker.failure_code if breaker and is_open else "",
                "since": fleet.opened_at.get(name, "") if is_open else "",
                "until": iso(breaker.open_until) if breaker and is_open else "",
                "paused": quota.paused if quota else "",
                "limits": quota.limits if quota else None,
            }
        )
    return sorted(found, key=lambda each: not (each["open"] or each["paused"]))


# ── workers ───────────────────────────────────────────────────────────────────


async def read_workers(rt: Runtime) -> list[Document]:
    """Return the last report of each worker, and whether it is alive."""
    rows = sorted(await read_reports(rt.table), key=lambda row: row.worker)
    return [worker_document(row, rt.clock()) for row in rows]


def worker_document(row: WorkerRow, now: float) -> Document:
    """Return the report of a worker."""
    return {
        "worker": row.worker,
        "state": worker_state(row, now),
        "pipelines": sorted(row.pipelines),
        "code_versions": sorted({*row.code_versions.values()} - {""}),
        "queues": sorted(row.queues),
        "in_progress": row.in_progress if row.is_live(now) else 0,
        "taken_over": row.taken_over,
        "max_chunks": row.max_chunks,
        "reported_at": row.reported_at,
    }


def worker_state(row: WorkerRow, now: float) -> str:
    """Return whether a worker is alive, late with its report, lost, or stopped."""
    if row.has_stopped:
        return "STOPPED"
    if row.is_lost(now):
        return "LOST"
    return "LATE" if row.is_late(now) else "ALIVE"
