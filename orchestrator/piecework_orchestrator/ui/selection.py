"""Actions on a selection of jobs: one preview and one reason for all of them.

A job in a status in which its own page does not offer the action is left out, and so is
one that another operator changes meanwhile. The others are not held up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from piecework.errors import PieceworkError, UsageError
from piecework_orchestrator.client import Client
from piecework_orchestrator.reading.job_documents import Document
from piecework_orchestrator.reading.times import count
from piecework_orchestrator.ui.action import Fields, Preview, Subject

#: Jobs or chunks of a selection; an address names each of them.
MAX_PICKED: Final = 200
COLUMNS: Final = ("job", "what_it_would_change")
Show = Callable[[Client, Subject], Awaitable[Preview]]
Perform = Callable[[Client, Subject, Fields], Coroutine[None, None, str]]


def show_each(show: Show, offered: AbstractSet[str]) -> Show:
    """Return a preview of an action that also shows it for a selection of jobs."""

    async def show_all(client: Client, subject: Subject) -> Preview:
        if not subject.picked:
            return await show(client, subject)
        previews: list[Preview] = []
        rows: list[Document] = []
        for job in subject.picked:
            try:
                await require_offered(client, job, offered)
                previews.append(await show(client, one_of(subject, job)))
                text = " ".join(previews[-1].sentences)
            except PieceworkError as error:
                text = f"Left out: {error.message}"
            rows.append(dict(zip(COLUMNS, (job, text), strict=True)))
        left = len(rows) - len(previews)
        sentence = f"{count(len(previews), 'job')} will change."
        sentence += f" {count(left, 'job')} will be left out." if left else ""
        fields = previews[0].fields if previews else ()
        is_closed = not previews
        return Preview((sentence,), tuple(rows), COLUMNS, fields, is_closed=is_closed)

    return show_all


def perform_each(perform: Perform, offered: AbstractSet[str]) -> Perform:
    """Return an action that also acts on a selection of jobs, one after the other."""

    async def perform_all(client: Client, subject: Subject, fields: Fields) -> str:
        if not subject.picked:
            return await perform(client, subject, fields)
        said: list[str] = []
        for job in subject.picked:
            try:
                await require_offered(client, job, offered)
                said.append(await perform(client, one_of(subject, job), fields))
            except PieceworkError as error:
                said.append(f"{job} was left out: {error.code}: {error.message}")
        return "\n".join(said)

    return perform_all


def one_of(subject: Subject, job: str) -> Subject:
    """Return the subject of one job of a selection."""
    return replace(subject, job=job, picked=())


async def require_offered(client: Client, job: str, offered: AbstractSet[str]) -> None:
    """Refuse an action that the page of a job would not offer.

    Raises:
        NotFoundError: `job.record.not_found`; `job.record.deleted`.
        UsageError: `cli.usage.invalid`: the job is in another status.
    """
    status = str((await client.job(job).facts()).status)
    if status not in offered:
        message = f"The job is {status}."
        raise UsageError(message, next_step="Open the page of the job.")
