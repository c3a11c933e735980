"""Read what the first page shows: the jobs, the fleet, and what needs an operator."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Final

from piecework.aws.work_queues import NOT_DEPLOYED
from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.refs import JobRef
from piecework.domain.rows import WorkerRow
from piecework.errors import StoreError
from piecework.explain.situation import (
    MAX_GROUPS,
    Surroundings,
    if_readable,
    read_situation,
    read_surroundings,
)
from piecework.explain.view import View
from piecework.resilience.breaker import BreakerPhase
from piecework.runtime import Runtime
from piecework.store.breakers import FleetRecord
from piecework.store.workers import read_reports
from piecework_orchestrator.client import Client
from piecework_orchestrator.cost.job import is_recorded
from piecework_orchestrator.cost.of_day import usd_of_jobs
from piecework_orchestrator.dead_letters.open_causes import (
    OpenCauses,
    read_open_causes,
)
from piecework_orchestrator.operate import pipelines
from piecework_orchestrator.reading.job_documents import (
    Document,
    explanation,
    job_facts,
)
from piecework_orchestrator.reading.job_list import batches, progress_of_all
from piecework_orchestrator.reading.selection import left_out
from piecework_orchestrator.ui.job_search import JobSearch
from piecework_orchestrator.ui.pacing import Pacing, requests_of

#: Read units a second of the first page, of dead letters, of each explained job, and of
#: their costs.
PAGE_UNITS, CAUSE_UNITS, EXPLAIN_UNITS, COST_UNITS = 0.4, 0.2, 0.05, 0.2
#: The newest jobs that are listed, and active ones that are explained.
MAX_JOBS, MAX_EXPLAINED = 50, 5
#: The newest jobs, deleted ones included, that are read to find those.
MAX_READ: Final = 500
#: Requests of a view. It explains no job that would take more; the next view does.
MAX_REQUESTS: Final = 30
#: Requests to explain a job of one group of chunks, with its dead letters and its join,
#: and with the batches of a model.
EXPLAIN_REQUESTS: Final = 7
MINUTE_S: Final = 60
#: Seconds for which an ended job is shown as it was read: it may be retried elsewhere.
#: And an open one: a search reads the same jobs again at once.
ENDED_S, OPEN_S = 300.0, 0.4


@dataclass(slots=True)
class Overview:
    """The first page of one start; all open pages share its reads."""

    client: Client
    pacing: Pacing
    #: Jobs, each with the time until which it is shown as it was read; None: no job.
    _known: dict[JobRef, tuple[float, Job | None]] = field(default_factory=dict)
    #: What ended jobs have cost, by job and generation.
    _priced: dict[tuple[JobRef, int], float] = field(default_factory=dict)

    @property
    def rt(self) -> Runtime:
        """The deployment."""
        return self.client.runtime

    async def read(self, wanted: JobSearch) -> Document:
        """Return what the page shows, with the jobs that match."""
        began = requests_of(self.rt.cost)
        parts: Document = await self.pacing.get("overview", self._read, PAGE_UNITS)
        jobs = parts["jobs"]
        shown = jobs, parts["more"]
        if not wanted.matches_all:
            key = ("jobs", wanted)
            shown = await self.pacing.get(key, lambda: self._jobs(wanted), PAGE_UNITS)
        found = await self.causes()
        cost = await self.pacing.get("cost", lambda: self._cost(jobs), COST_UNITS)
        active = [job for job in jobs if not job["ended"]]
        left = MAX_REQUESTS - (requests_of(self.rt.cost) - began)
        explained = await self._explain(active[:MAX_EXPLAINED], parts["around"], left)
        rates = [each["rate"] for each in explained if each["rate"] is not None]
        waits = [each["due_since"] for each in explained if each["due_since"]]
        unreadable = [*parts["unreadable"], *(CAUSES_PART if found is None else ())]
        return {
            **parts,
            **causes_shown(found),
            "unreadable": unreadable,
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

    async def causes(self) -> OpenCauses | None:
        """Return the causes of open dead letters; None: they cannot be read."""
        return await self.pacing.get(
            "causes", lambda: if_readable(read_open_causes, self.rt), CAUSE_UNITS
        )

    async def _read(self) -> Document:
        """Read the jobs and the fleet."""
        (jobs, more), around = await asyncio.gather(
            self._jobs(JobSearch()),
            read_surroundings(self.rt, self.rt.settings.tenant),
        )
        now = self.rt.clock()
        workers = [worker_document(row, now) for row in around.workers or ()]
        states = Counter(worker["state"] for worker in workers)
        alive = [worker for worker in workers if worker["state"] == "ALIVE"]
        failed = [
            {"webhook": hook.name, "error": hook.last_error, "at": hook.failed_at}
            for hook in around.webhooks or ()
            if hook.failed_at
        ]
        parts = {
            "workers": around.workers,
            "breakers and limits": around.fleet,
            "webhooks": around.webhooks,
        }
        return {
            "jobs": jobs,
            "more": more,
            "around": around,
            "queue_depth": await self._depth(around.workers or ()),
            "dependencies": None
            if around.fleet is None
            else dependencies(around.fleet),
            "workers": None if around.workers is None else states,
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
        found: list[Job] = []
        read, more, now = 0, False, self.rt.clock()
        tenant, pipeline = self.rt.settings.tenant, wanted.pipeline or "*"
        listed: Any = self.rt.jobs.listed(tenant, pipeline, wanted.since_at(now))
        async with aclosing(listed):
            async for refs in batches(listed):
                if more := len(found) > MAX_JOBS or read >= MAX_READ:
                    break
                read += len(refs)
                found += [
                    job
                    for job in await self._records(refs)
                    if wanted.matches(job_facts(job, now))
                ]
        shown = found[:MAX_JOBS]
        progress = await progress_of_all(self.rt, shown)
        documents = [
            {
                **job_facts(job, now),
                **progress[job.ref],
                "ended": job.status.ended,
                "effects_in_doubt": job.effects_in_doubt,
            }
            for job in shown
        ]
        return documents, more or len(found) > MAX_JOBS

    async def _records(self, refs: Sequence[JobRef]) -> list[Job]:
        """Return the jobs that exist and can be read, in order."""
        now = self.rt.clock()
        known = self._known
        left = [ref for ref in refs if now >= known.get(ref, (0.0, None))[0]]
        found, newer = await self.rt.jobs.read_many(left)
        for ref in set(left).difference(newer):
            job = found.get(ref)
            gone = job is None or job.status.gone
            rests = job is None or job.status.ended or gone
            known[ref] = now + (ENDED_S if rests else OPEN_S), None if gone else job
        jobs = [known.get(ref, (0.0, None))[1] for ref in refs]
        return [job for job in jobs if job is not None]

    def forget(self) -> None:
        """Read the jobs again: an operator changed one."""
        self._known.clear()
        self.pacing.forget("overview")
        self.pacing.forget("causes")
        self.pacing.forget_kind("jobs")

    async def _explain(
        self, jobs: Sequence[Document], around: Surroundings, left: int
    ) -> list[Document]:
        """Return the first finding of jobs, their throughput, and what is overdue.

        Those that would take more requests than are left are explained by a later view.
        """
        found = []
        for job in jobs:
            ref = JobRef(self.rt.settings.tenant, job["job"])
            key, state = ("explained", job["job"]), job["status"]
            takes = explaining_takes(job["chunks"])
            is_kept = self.pacing.is_kept(key, state)
            if not is_kept and takes > left:
                continue
            left -= 0 if is_kept else takes
            found.append(
                await self.pacing.get(
                    key,
                    partial(self._explained, ref, around),
                    EXPLAIN_UNITS,
                    state=state,
                )
            )
        return found

    async def _explained(self, ref: JobRef, around: Surroundings) -> Document:
        record = self._known.get(ref, (0.0, None))[1]
        if record is None:
            return {"job": ref.job, "finding": None, "rate": None, "due_since": 0.0}
        situation = await read_situation(self.rt, record, around=around)
        view, explained = View(situation), explanation(situation)
        rate = situation.throughput and situation.throughput.rate * MINUTE_S
        due = [view.due_since(chunk) for chunk in view.due]
        return {
            "job": ref.job,
            "finding": explained["findings"][0],
            "rate": rate,
            "due_since": min(due, default=0.0),
        }

    async def _cost(self, jobs: Sequence[Document]) -> Document:
        """Return about what the jobs of the day have cost, their storage left out."""
        now = self.rt.clock()
        today = iso(now)[:10]
        of_day = [j for j in jobs if not j["ended"] or j["finished_at"][:10] == today]
        tenant = self.rt.settings.tenant
        records = [self._known.get(JobRef(tenant, j["job"])) for j in of_day]
        known = [found[1] for found in records if found and found[1] is not None]
        left = [job for job in known if (job.ref, job.gen) not in self._priced]
        priced = await usd_of_jobs(self.rt, left)
        if priced is None:
            return {"usd": 0.0, "jobs": 0, "others": len(of_day)}
        for job in left:
            if job.status.ended and is_recorded(job.finished_at, now):
                self._priced[job.ref, job.gen] = priced[job.ref]
        usd = [priced.get(j.ref, self._priced.get((j.ref, j.gen), 0.0)) for j in known]
        return {"usd": sum(usd), "jobs": len(usd), "others": len(of_day) - len(usd)}


#: How the page names what it cannot read of dead letters.
CAUSES_PART: Final = ("the dead letters of all jobs",)


def causes_shown(found: OpenCauses | None) -> Document:
    """Return what the pages show of open dead letters; None: they cannot be read."""
    if found is None:
        found = OpenCauses([], 0, complete=True, more=0, rows=[], damaged=[])
        return causes_shown(found) | {"causes": None}
    return {
        "causes": found.causes,
        "letters": found.number,
        "more_letters": not found.complete,
        "more_causes": found.more,
        "left_out": left_out(found.damaged),
    }


def explaining_takes(chunks: int) -> int:
    """Return how many requests it takes to explain a job, beside its surroundings."""
    groups = keys.partition_count(chunks)
    return EXPLAIN_REQUESTS + min(groups, MAX_GROUPS) + (groups > MAX_GROUPS) * 3


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
