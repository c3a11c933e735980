"""The questions that wait for a person: list them, show one, answer it."""

from __future__ import annotations

from itertools import islice
from operator import itemgetter
from typing import Final

from piecework.domain.moments import iso
from piecework_orchestrator.client import Client
from piecework_orchestrator.reading.job_documents import Document
from piecework_orchestrator.ui.action import Fields, Preview, Subject
from piecework_orchestrator.ui.question_form import fields_of, is_approval, read_answer

#: Questions on their page.
MAX_QUESTIONS: Final = 200
#: The hidden field with the time at which the question of a form was asked.
ASKED_AT: Final = "asked_at"


async def list_questions(client: Client, job: str) -> tuple[list[Document], bool]:
    """Return the open questions by their end, and whether there are more.

    `job`: only those of this job; empty: of the tenant.
    """
    source = client.job(job).questions() if job else client.approvals()
    found: list[Document] = []
    async for question in source:
        now = iso(client.runtime.clock())
        found.append(question | {"next": next_step(question, now)})
        if len(found) > MAX_QUESTIONS:
            break
    listed = sorted(found[:MAX_QUESTIONS], key=itemgetter("until"))
    return listed, len(found) > MAX_QUESTIONS


def next_step(question: Document, now: str) -> Document:
    """Return the next reminder or escalation of a question; empty: it has no more."""
    ahead = (step for step in question["steps"] if step["at"] > now)
    return next(islice(ahead, 1), {})


async def preview_answer(client: Client, subject: Subject) -> Preview:
    """Show what a stage asks, and ask for the answer; or what was decided."""
    job = client.job(subject.job)
    question = await job.question(subject.one_chunk, subject.question)
    question |= {"next": next_step(question, iso(client.runtime.clock()))}
    question |= {"is_approval": is_approval(question["schema"])}
    return Preview(
        (),
        fields=fields_of(question["schema"]),
        question=question,
        is_closed="outcome" in question,
    )


async def answer(client: Client, subject: Subject, fields: Fields) -> str:
    """Answer a question as it was asked when its form was made."""
    job, chunk = client.job(subject.job), subject.one_chunk
    question = await job.question(chunk, subject.question)
    done = await job.answer(
        chunk,
        read_answer(question["schema"], fields),
        fields["reason"],
        question=subject.question,
        asked_at=fields.get(ASKED_AT, ""),
    )
    return f"The answer counts: {done['outcome']}. The stage goes on."
