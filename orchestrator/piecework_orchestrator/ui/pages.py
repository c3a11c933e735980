"""The pages: each method answers a request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from piecework.domain.job import Job
from piecework.domain.keys import JOIN_CHUNK
from piecework.domain.moments import moment
from piecework.domain.states import ChunkStatus
from piecework.errors import NotFoundError, PieceworkError, StoreError, UsageError
from piecework.errors.codes import REGISTRY
from piecework.explain.situation import IN_DOUBT, if_readable
from piecework.store.completion import all_chunks
from piecework_orchestrator.client import Client
from piecework_orchestrator.dead_letters.letters import dead_letter_document
from piecework_orchestrator.dead_letters.open_causes import read_open_causes
from piecework_orchestrator.operate.batches import Wanted, list_batches
from piecework_orchestrator.reading.call_documents import (
    call_document,
    call_documents,
)
from piecework_orchestrator.reading.chunk_documents import chunk_document
from piecework_orchestrator.reading.events import job_events
from piecework_orchestrator.reading.job_documents import (
    MAX_READ_CHUNKS,
    Document,
    batch_facts,
    job_facts,
    require_job,
)
from piecework_orchestrator.reading.selection import left_out
from piecework_orchestrator.reading.timeline import chunk_timeline
from piecework_orchestrator.results.results import ended_chunks, result_json
from piecework_orchestrator.ui.access import Access
from piecework_orchestrator.ui.action import (
    MOST_DIGITS,
    NAMES,
    Action,
    Subject,
    chunk_number,
)
from piecework_orchestrator.ui.actions import ACTIONS, offered_to
from piecework_orchestrator.ui.chart import MAX_BARS, SAMPLED_BARS, Chart, make_chart
from piecework_orchestrator.ui.grid import make_grid
from piecework_orchestrator.ui.job_search import JobSearch
from piecework_orchestrator.ui.overview import Overview, causes_shown, read_workers
from piecework_orchestrator.ui.pacing import Pacing
from piecework_orchestrator.ui.question_actions import MAX_QUESTIONS, list_questions
from piecework_orchestrator.ui.reading import ChunkTable, JobReads, read_values
from piecework_orchestrator.ui.selection import MAX_PICKED
from piecework_orchestrator.ui.tasks import Tasks
from piecework_orchestrator.ui.timeline import make_timeline, make_waterfall

#: Ended batches of each model on their page.
MAX_ENDED: Final = 20
#: Results on their page, and characters of each.
MAX_RESULTS, MAX_RESULT_LENGTH = 200, 2_000
#: Chunks that a search for a label lists.
MAX_FOUND: Final = 100
#: Chunks that the page of a cause lists.
MAX_OF_CAUSE: Final = MAX_PICKED
STYLES: Final = Path(__file__).with_name("static") / "style.css"
#: The parts of the first page that follow the fleet, as templates and as elements.
FLEET_PARTS: Final = ("fleet", "jobs", "rest")
#: The parts of a job's page that follow it, as templates and as elements of the page.
LIVE_PARTS: Final = ("summary", "doubt", "chart", "chunks")
#: A saved page has no actions.
SAVED: Final = Access(frozenset(), "", actions=False, payloads=False)
#: Milliseconds after which the browser connects again to a closed stream.
RETRY_MS = 2_000


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of one deployment."""

    client: Client
    access: Access
    tasks: Tasks
    environment: Environment
    poll_s: float | None = None
    jobs: JobReads = field(init=False)
    fleet: Overview = field(init=False)

    def __post_init__(self) -> None:
        """Share the reads of all open pages."""
        pacing = Pacing(self.client.runtime, self.poll_s)
        object.__setattr__(self, "jobs", JobReads(self.client.runtime, pacing))
        object.__setattr__(self, "fleet", Overview(self.client, pacing))

    # ── read ──────────────────────────────────────────────────────────────────

    async def overview(self, request: Request) -> Response:
        """Show the jobs that match, the causes of dead letters, and the fleet."""
        wanted = JobSearch.read(request.query_params)
        parts = await self.fleet.read(wanted)
        refresh_s = self.fleet.refresh_s()
        return self._page("overview.html", **parts, refresh_s=refresh_s)

    async def overview_live(self, request: Request) -> Response:
        """Stream the first page whenever it was read again."""
        wanted = JobSearch.read(request.query_params)

        async def updates() -> AsyncIterator[str]:
            yield f"retry: {RETRY_MS}\n\n"
            shown: dict[str, str] = {}
            while True:
                await asyncio.sleep(self.fleet.refresh_s())
                parts = await self.fleet.read(wanted)
                now = {
                    name: self._render(f"{name}.html", **parts) for name in FLEET_PARTS
                }
                if changed := changes(shown, now):
                    yield update_of(changed)
                shown = now

        return StreamingResponse(updates(), media_type="text/event-stream")

    async def job(self, request: Request) -> Response:
        """Show one job."""
        return self._page("job.html", **await self._job(request))

    async def report(self, request: Request) -> Response:
        """Return a job's page as one file without links, for a ticket."""
        context = await self._job(request)
        context |= {"styles": STYLES.read_text(), "access": SAVED, "saved": True}
        page = self._render("report.html", **context)
        name = f"attachment; filename=piecework-{context['job']['job']}.html"
        return HTMLResponse(page, headers={"Content-Disposition": name})

    async def live(self, request: Request) -> Response:
        """Stream the parts of a job's page that change, until the job has ended."""
        record, _ = await self.jobs.record(request.path_params["job"])
        return StreamingResponse(
            self._updates(record.ref.job), media_type="text/event-stream"
        )

    async def results(self, request: Request) -> Response:
        """Show the results of the chunks that have ended."""
        if not self.access.payloads:
            raise HTTPException(403, "Results are hidden. Use --show-payloads.")
        rt = self.client.runtime
        record = await require_job(rt, request.path_params["job"])
        rows: list[Document] = []
        async for ended in ended_chunks(rt, record):
            if ended.succeeded:
                text = await result_json(rt, ended)
                short = text[:MAX_RESULT_LENGTH] + "…" * (len(text) > MAX_RESULT_LENGTH)
                chunk = ended.chunk
                row = {"chunk": chunk.ref.chunk, "label": chunk.label, "value": short}
                rows.append(row | {"code_version": ended.code_version})
            if len(rows) == MAX_RESULTS:
                break
        job = job_facts(record, rt.clock())
        return self._page("results.html", job=job, rows=rows, most=MAX_RESULTS)

    async def find(self, request: Request) -> Response:
        """Lead to the chunk of a number, or show those whose label has some words."""
        rt, words = self.client.runtime, request.query_params.get("q", "").strip()
        record = await require_job(rt, request.path_params["job"])
        if words.isascii() and words.isdigit() and len(words) < MOST_DIGITS:
            place = f"{self.access.base}/jobs/{record.ref.job}/chunks/{int(words)}"
            return Response(status_code=303, headers={"Location": place})
        searched = min(record.chunks, MAX_READ_CHUNKS)
        rows: list[Document] = []
        async for chunk in all_chunks(rt.table, record.ref, searched):
            if words.lower() in chunk.label.lower():
                rows.append(chunk.facts)
            if len(rows) > MAX_FOUND:
                break
        return self._page(
            "find.html",
            job=job_facts(record, rt.clock()),
            words=words,
            rows=rows[:MAX_FOUND],
            more=len(rows) > MAX_FOUND,
            searched=searched,
        )

    async def chunk(self, request: Request) -> Response:
        """Show one chunk."""
        rt = self.client.runtime
        record = await require_job(rt, request.path_params["job"])
        number = request.path_params["chunk"]
        chunk, spans, calls = await asyncio.gather(
            chunk_document(rt, record, number),
            chunk_timeline(rt, record, record.ref.chunk(number)),
            call_documents(rt, record, number),
        )
        letter = None
        if chunk["status"] == "DEAD":
            letter = await dead_letter_document(rt, record.ref.chunk(number))
        values = await read_values(rt, record, number) if self.access.payloads else {}
        job = job_facts(record, rt.clock())
        return self._page(
            "chunk.html",
            job=job,
            chunk=chunk,
            timeline=make_timeline(spans),
            calls=make_waterfall(calls),
            failed=next(
                (c["call"] for c in reversed(calls) if c["end"] == "failed"), 0
            ),
            letter=letter,
            doubtful=doubtful_of(chunk),
            values=values,
        )

    async def call(self, request: Request) -> Response:
        """Show one call of a chunk, with its arguments and its answer."""
        rt, place = self.client.runtime, request.path_params
        record = await require_job(rt, place["job"])
        found = await call_document(rt, record, place["chunk"], place["call"])
        job = job_facts(record, rt.clock())
        return self._page("call.html", job=job, chunk=place["chunk"], call=found)

    async def dead_letters(self, _: Request) -> Response:
        """Show the open dead letters by cause."""
        found = await self.fleet.causes()
        return self._page("dead_letters.html", **causes_shown(found))

    async def cause(self, request: Request) -> Response:
        """Show the chunks of a cause of dead letters, to choose among them."""
        mark = request.path_params["fingerprint"]
        found = await read_open_causes(self.client.runtime, mark, MAX_OF_CAUSE)
        if not found.causes:
            raise HTTPException(404, "No open dead letter has this cause any more.")
        return self._page(
            "cause.html",
            cause=found.causes[0],
            rows=[letter.facts for letter in found.rows],
            more=not found.complete,
            left_out=left_out(found.damaged),
        )

    async def questions(self, request: Request) -> Response:
        """Show the open questions of the tenant, or of a job."""
        job = request.query_params.get("job", "")
        found, more = await list_questions(self.client, job)
        return self._page(
            "questions.html", of=job, questions=found, more=more, most=MAX_QUESTIONS
        )

    async def question(self, request: Request) -> Response:
        """Show one question, with the form of its answer if actions are allowed."""
        place = request.path_params
        name = request.query_params.get("name", "")
        subject = Subject(place["job"], chunk_number(place["chunk"]), question=name)
        return await self._preview(ACTIONS["answer"], subject)

    async def batches(self, request: Request) -> Response:
        """Show what is gathered, and the batches of the tenant or of a job."""
        job = request.query_params.get("job", "")
        rt, wanted = self.client.runtime, Wanted(job, ended=True, most=MAX_ENDED)
        found = await if_readable(list_batches, rt, wanted)
        return self._page("batches.html", of=job, batches=found)

    async def workers(self, _: Request) -> Response:
        """Show the workers by their last report."""
        found = await if_readable(read_workers, self.client.runtime)
        return self._page("workers.html", workers=found)

    # ── change ────────────────────────────────────────────────────────────────

    async def action(self, request: Request) -> Response:
        """Show what an action would touch, or perform it."""
        action = ACTIONS.get(request.path_params["action"])
        if action is None:
            raise HTTPException(404, "This action does not exist.")
        if not self.access.actions:
            raise HTTPException(403, "This page only reads. Use --allow-actions.")
        if action.shows_payload and not self.access.payloads:
            raise HTTPException(403, "Payloads are hidden. Use --show-payloads.")
        subject = read_subject(request)
        if request.method != "POST":
            return await self._preview(action, subject)
        form = await request.form()
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        if not self.access.is_own_form(fields.get("form_token")):
            raise HTTPException(403, "The form is out of date. Load the page again.")
        if not fields.get("reason", "").strip():
            error = UsageError(
                "A reason is required; the record keeps it.",
                code="cli.reason.missing",
                next_step="Write what was found or mended.",
            )
            return await self._preview(action, subject, error, fields)
        work = action.perform(self.client, subject, fields)
        task = await self.tasks.start(
            f"{action.title}: {subject}", back_to(subject), work
        )
        self.fleet.forget()
        self.jobs.forget(subject.job)
        if isinstance(task.error, UsageError | NotFoundError):
            return await self._preview(action, subject, task.error, fields)
        place = f"{self.access.base}/tasks/{task.number}"
        return Response(status_code=303, headers={"Location": place})

    async def task(self, request: Request) -> Response:
        """Show the outcome of an action, or that it still runs."""
        task = self.tasks.get(request.path_params["task"])
        if task is None:
            raise HTTPException(404, "This action is not known any more.")
        return self._page("task.html", task=task)

    # ── errors ────────────────────────────────────────────────────────────────

    async def error(self, _: Request, error: Exception) -> Response:
        """Show an error with its code and the next step."""
        status = 404 if isinstance(error, NotFoundError) else 400
        status = 502 if isinstance(error, StoreError) else status
        return self._page("error.html", status, error=error, text="")

    async def http_error(self, _: Request, error: Exception) -> Response:
        """Show an address that does not exist, or a refusal."""
        status = getattr(error, "status_code", 500)
        text = getattr(error, "detail", "")
        return self._page("error.html", status, error=None, text=text)

    # ── parts ─────────────────────────────────────────────────────────────────

    async def _job(self, request: Request) -> Document:
        """Return what a job's page shows."""
        rt = self.client.runtime
        record, facts = await self.jobs.record(request.path_params["job"])
        # One after the other: the meter tells what each read takes.
        parts = await self._parts(record, facts)
        events = await job_events(rt, record, parts["table"].claims)
        letters = await self.jobs.letters(record)
        return {
            **parts,
            "events": events,
            "letters": letters.open - len(letters.damaged),
            "more_letters": not letters.complete,
            "left_out": left_out(letters.damaged),
            "is_open": not record.status.ended,
            "offered": offered_to(parts["job"]["status"]),
            "refresh_s": self.jobs.refresh_s(record),
        }

    async def _parts(self, record: Job, facts: Document) -> Document:
        """Return the parts of a job's page that change while it runs."""
        rt, table = self.client.runtime, await self.jobs.table(record)
        batches = table.explained["batches"]
        return {
            "effects": await self.jobs.effects(record, table),
            "job": job_facts(record, rt.clock()) | facts,
            "ended": max(facts["ended_chunks"], table.ended),
            "table": table,
            "grid": make_grid(table.statuses),
            "chart": chart_of(record, table),
            "age_s": rt.clock() - table.read_at,
            "batch_calls": None,
            **batch_facts(table.used, batches),
        }

    async def _updates(self, job: str) -> AsyncIterator[str]:
        """Yield an event whenever a part of a job's page changed."""
        yield f"retry: {RETRY_MS}\n\n"
        shown: dict[str, str] = {}
        while True:
            record, facts = await self.jobs.record(job)
            parts = await self._parts(record, facts)
            now = {name: self._render(f"{name}.html", **parts) for name in LIVE_PARTS}
            if changed := changes(shown, now):
                yield update_of(changed)
            shown = now
            if record.status.ended:
                yield "event: ended\ndata: {}\n\n"
                return
            await asyncio.sleep(self.jobs.pacing.poll_s)

    async def _preview(
        self,
        action: Action,
        subject: Subject,
        error: PieceworkError | None = None,
        fields: dict[str, str] | None = None,
    ) -> Response:
        preview = await action.preview(self.client, subject)
        return self._page(
            action.page,
            422 if error else 200,
            action=action,
            action_name=name_of(action),
            address=address_of(action, subject),
            subject=subject,
            preview=preview,
            error=error,
            entered=fields or {},
            back=back_to(subject),
        )

    def _page(self, name: str, status: int = 200, **context: Any) -> Response:
        return HTMLResponse(self._render(name, **context), status)

    def _render(self, name: str, **context: Any) -> str:
        settings = self.client.runtime.settings
        place = {"env": settings.env, "tenant": settings.tenant}
        shared = {
            **place,
            "access": self.access,
            "codes": REGISTRY,
            "actions": ACTIONS,
            "saved": False,
        }
        return self.environment.get_template(name).render(shared | context)


def chart_of(job: Job, table: ChunkTable) -> Chart | None:
    """Return the chart of a job since its submit; None: nothing has happened yet."""
    ended = moment(job.finished_at) if job.status.ended else table.read_at
    bars = SAMPLED_BARS if table.sampled else MAX_BARS
    return make_chart(table.history, moment(job.created_at), ended, bars)


def doubtful_of(chunk: Document) -> list[Document]:
    """Return the effects of a chunk that an operator may resolve."""
    if not ChunkStatus(chunk["status"]).ended:
        return []
    found = (row for row in chunk["effects"] if row["state"] in IN_DOUBT)
    return [row | {"chunk": chunk["chunk"]} for row in found]


def changes(shown: dict[str, str], now: dict[str, str]) -> dict[str, str]:
    """Return the parts of a page that differ from those that were sent before."""
    return {name: text for name, text in now.items() if shown.get(name) != text}


def update_of(parts: dict[str, str]) -> str:
    """Return the event that replaces parts of a page."""
    return f"event: update\ndata: {json.dumps(parts)}\n\n"


def read_subject(request: Request) -> Subject:
    """Return what an action is about.

    Raises:
        UsageError: `cli.usage.invalid`: it names no chunk, nothing of a selection was
            selected, or too much.
    """
    query = request.query_params
    chunk = chunk_number(query["chunk"]) if query.get("chunk") else None
    texts = (text for found in query.getlist("pick") for text in found.split(","))
    picked = tuple(dict.fromkeys(filter(None, texts)))
    if len(picked) > MAX_PICKED or ("selection" in query and not picked):
        most = f"Select one at least, and {MAX_PICKED} at most."
        message = "Nothing is selected." if not picked else "Too much is selected."
        raise UsageError(message, next_step=most)
    named = {name: query.get(name, "") for name in NAMES}
    return Subject(chunk=chunk, picked=picked, **named)


def address_of(action: Action, subject: Subject) -> str:
    """Return the address, below the base, to which an action's form is sent."""
    return f"/actions/{name_of(action)}?{urlencode(subject.query)}"


def name_of(action: Action) -> str:
    """Return the name of an action in its address."""
    [name] = [name for name, each in ACTIONS.items() if each is action]
    return name


def back_to(subject: Subject) -> str:
    """Return the address, below the base, from which an action was chosen."""
    if subject.question:
        return "/questions"
    if subject.pipeline or (subject.picked and "/" not in subject.picked[0]):
        return "/"
    if not subject.job and subject.fingerprint:
        return f"/causes/{quote(subject.fingerprint, safe='')}"
    if not subject.job:
        return "/dead-letters"
    page = "" if subject.chunk in {None, JOIN_CHUNK} else f"/chunks/{subject.chunk}"
    return f"/jobs/{subject.job}{page}"
