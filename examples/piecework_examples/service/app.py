"""A web service that counts the words of paragraphs, as jobs of Piecework.

The service only submits and reads; workers process the chunks:

pip install fastapi uvicorn
piecework up
piecework worker --pipelines piecework_examples.quickstart &
uvicorn piecework_examples.service.app:app
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel

from piecework.client import Client, JobHandle, JobView
from piecework_examples.quickstart import Paragraph, word_count
from piecework_examples.service.errors import answer_errors
from piecework_examples.service.events import END, Seen, event_of

router = APIRouter()


class Accepted(BaseModel):
    """The answer to a submit; `created` is false if the job existed already."""

    job: str
    created: bool


class Status(BaseModel):
    """The state of a job: its chunks by status, and its open dead letters."""

    job: str
    status: str
    chunks: int
    counts: dict[str, int]
    dead_letters: int


def make_app(open_client: Callable[[], Client] = Client) -> FastAPI:
    """Return the service; each process of it has one client."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_client() as client:
            app.state.client = client
            yield

    app = FastAPI(title="Word counts", lifespan=lifespan)
    app.include_router(router)
    answer_errors(app)
    return app


def client_of(request: Request) -> Client:
    """Return the client of the process."""
    client: Client = request.app.state.client
    return client


def open_job(job: str, client: Annotated[Client, Depends(client_of)]) -> JobHandle[int]:
    """Return the handle of the job in the path."""
    return client.job(job, word_count)


Job = Annotated[JobHandle[int], Depends(open_job)]


@router.post("/jobs", status_code=202)
async def submit(
    paragraphs: list[Paragraph],
    key: Annotated[str, Header(alias="Idempotency-Key")],
    client: Annotated[Client, Depends(client_of)],
) -> Accepted:
    """Submit paragraphs as a job; its id is the key.

    A repeated request finds the job and starts nothing. The same key with other
    paragraphs is refused.
    """
    job = await client.submit(word_count, paragraphs, id=key, deadline="2h")
    return Accepted(job=job.id, created=job.created)


@router.get("/jobs/{job}")
async def show(job: Job) -> Status:
    """Return the state of a job."""
    return status_of(await job.view())


@router.delete("/jobs/{job}", status_code=202)
async def cancel(job: Job) -> Status:
    """Cancel a job; chunks that have a result keep it."""
    await job.cancel("requested over HTTP")
    return status_of(await job.view())


async def already_sent(job: Job, last_event_id: Annotated[str, Header()] = "") -> Seen:
    """Return the chunks that an earlier stream has sent.

    This runs before the stream, so an unknown job is still answered with 404. The
    status 204 tells an `EventSource` not to connect again.
    """
    if last_event_id == END:
        raise HTTPException(204)
    view = await job.view()
    return Seen.after(last_event_id, view.document["gen"])


@router.get("/jobs/{job}/results", response_class=EventSourceResponse)
async def stream(
    job: Job, seen: Annotated[Seen, Depends(already_sent)]
) -> AsyncIterator[ServerSentEvent]:
    """Send each chunk when it ends, and the state of the job at the end."""
    async for item in job.results(skip=seen):
        seen = seen.plus(item.chunk)
        yield event_of(item, seen)
    end = status_of(await job.view())
    yield ServerSentEvent(event="end", id=END, data=end)


def status_of(view: JobView) -> Status:
    """Return the state of a job as the service sends it."""
    return Status(
        job=view.id,
        status=view.status,
        chunks=view.chunks,
        counts=dict(view.counts),
        dead_letters=view.dead_letters,
    )


app = make_app()
