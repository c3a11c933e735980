"""List the open questions of jobs, show one, answer it: exactly one answer counts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.question import QuestionRow, QuestionState
from piecework.domain.refs import ChunkRef, JobRef
from piecework.errors import NotFoundError, SchemaTooNewError, UsageError
from piecework.reading import Reading
from piecework.runtime import Runtime
from piecework.store.completion import read_chunk
from piecework.store.questions import PersonAnswer, read_question, read_questions
from piecework.store.waits import WaitIndex
from piecework_orchestrator.reading.chunk_documents import require_chunk
from piecework_orchestrator.reading.job_documents import Document, require_job
from piecework_orchestrator.reading.job_list import batches

#: The jobs, from the newest on, whose questions a list without a job has.
NEWEST_JOBS = 500


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """What a person answers.

    Attributes:
        value: An instance of the question's model, or a JSON value.
        question: The name of the question; empty: the one that is open.
        asked_at: When it was asked, ISO 8601: the same question may be asked again
            after a retry. Empty: whenever that was.
    """

    value: Any
    actor: str
    reason: str
    question: str = ""
    asked_at: str = ""


async def open_questions(
    rt: Reading, job: str = "", too_new: list[JobRef] | None = None
) -> AsyncIterator[Document]:
    """Yield the open questions of a job, or of the tenant's newest jobs.

    The questions of a job come in the order in which they are due. Only jobs whose
    chunks have ever waited long are asked for their index. The list of active jobs is
    not read, because it has the jobs of all tenants. A reader of one tenant may not see
    it.

    Jobs that a newer version wrote are left out, and added to `too_new`.

    Raises:
        NotFoundError: `job.record.not_found`.
        SchemaTooNewError: A newer version wrote the job `job`.
    """
    if job:
        async for document in questions_of(rt, await require_job(rt, job)):
            yield document
        return
    left = NEWEST_JOBS
    async for refs in batches(rt.jobs.listed(rt.settings.tenant)):
        jobs, newer = await rt.jobs.read_many(refs[:left])
        if too_new is not None:
            too_new += newer
        for record in jobs.values():
            try:
                async for document in questions_of(rt, record):
                    yield document
            except SchemaTooNewError:
                if too_new is not None:
                    too_new.append(record.ref)
        left -= len(refs)
        if left <= 0:
            return


async def questions_of(rt: Reading, job: Job) -> AsyncIterator[Document]:
    """Yield the open questions of a job, each once.

    The chunk decides, not the index. A cancel leaves the entry of its question in the
    index. The chunk may ask again after a retry.
    """
    if not (job.has_waits and job.status.is_open):
        return
    listed = set[int]()
    async for entry in WaitIndex(rt.table, rt.clock).open_questions(job.ref):
        if entry.chunk in listed:
            continue
        ref = job.ref.chunk(entry.chunk)
        row, chunk = await asyncio.gather(
            read_question(rt.table, ref, entry.stage, entry.question),
            read_chunk(rt.table, ref),
        )
        if row is None or chunk is None or row.state is not QuestionState.OPEN:
            continue
        if is_current(chunk, row):
            listed.add(entry.chunk)
            yield question_document(ref, row, rt.clock())


async def chunk_question(rt: Reading, ref: ChunkRef, question: str = "") -> Document:
    """Return a question of a chunk: the named one, the open one, or the last one.

    Raises:
        NotFoundError: `job.chunk.not_found`, `approval.question.not_found`.
    """
    chunk, row = await find_question(rt, ref, question)
    return shown(chunk, row, rt.clock())


async def linked_question(
    rt: Reading, ref: ChunkRef, question: str, asked_at: str
) -> Document:
    """Return a question of a chunk as it was asked at one time.

    Raises:
        NotFoundError: `job.chunk.not_found`, `approval.question.not_found`.
        UsageError: `approval.question.asked_again`.
    """
    chunk, row = await find_question(rt, ref, question, asked_at)
    if row.asked_at != asked_at:
        raise asked_again(ref, row)
    return shown(chunk, row, rt.clock())


async def answer(rt: Runtime, ref: ChunkRef, request: AnswerRequest) -> Document:
    """Answer an open question, and return it.

    Raises:
        NotFoundError: `job.chunk.not_found`, `approval.question.not_found`.
        UsageError: `cli.reason.missing`, `approval.answer.invalid`;
            `approval.question.answered`, `approval.question.timed_out`,
            `approval.question.asked_again`, `approval.question.left`,
            `approval.question.contended`.
    """
    from piecework.answers import encode_answer  # loads pydantic: only writers need it
    from piecework_orchestrator.operate.answering import Refusal, answer_question

    if not request.reason.strip():
        message = "An answer requires a reason, which is kept in the record."
        raise UsageError(message, code="cli.reason.missing")
    _, row = await find_question(rt, ref, request.question, request.asked_at)
    if request.asked_at not in {"", row.asked_at}:
        raise asked_again(ref, row)
    if row.outcome(rt.clock()):
        raise ended(ref, row, rt.clock())
    value = encode_answer(row.model, row.schema, request.value)
    given = PersonAnswer(value, request.actor, request.reason)
    found, refusal = await answer_question(rt, ref, row, given)
    if refusal is Refusal.ENDED:
        raise ended(ref, found, rt.clock())
    if refusal is Refusal.LEFT:
        chunk = await require_chunk(rt, ref)
        raise left(chunk, found)
    if refusal is Refusal.CONTENDED:
        message = f"Steps of question {found.name!r} of {ref} came between."
        raise UsageError(message, code="approval.question.contended")
    return question_document(ref, found, rt.clock())


def ended(ref: ChunkRef, row: QuestionRow, now: float) -> UsageError:
    """Return the error of an answer that comes too late, with what was decided."""
    message = f"Question {row.name!r} of {ref} has ended: {row.outcome(now)}."
    if row.state is QuestionState.ANSWERED:
        return UsageError(message, code="approval.question.answered")
    step = (
        "A default counts for ever, and a redrive does not ask again. Let the pipeline "
        "ask a further question."
    )
    if not row.has_default:
        only = "" if ref.is_join else f" --chunk {ref.name}"
        step = (
            "If the chunk is DEAD, redrive it: the question is then asked again. "
            f"`piecework dlq redrive --job {ref.job}{only} --reason WHY`"
        )
    return UsageError(message, code="approval.question.timed_out", next_step=step)


def asked_again(ref: ChunkRef, row: QuestionRow) -> UsageError:
    """Return the error of an answer to an earlier asking of a question."""
    message = f"Question {row.name!r} of {ref} was asked again at {row.asked_at}."
    return UsageError(message, code="approval.question.asked_again")


def left(chunk: Chunk, row: QuestionRow) -> UsageError:
    """Return the error of an answer to a question that its chunk has left."""
    message = f"Chunk {chunk.ref} ({chunk.status}) does not wait for {row.name!r}."
    return UsageError(message, code="approval.question.left")


async def find_question(
    rt: Reading, ref: ChunkRef, question: str, asked_at: str = ""
) -> tuple[Chunk, QuestionRow]:
    """Return a chunk, and its named question, the open one, or the last one.

    Two stages may ask questions of one name: `asked_at` tells them apart.

    Raises:
        NotFoundError: `job.chunk.not_found`, `approval.question.not_found`.
    """
    chunk = await require_chunk(rt, ref)
    wanted = question or chunk.question
    rows = await read_questions(rt.table, ref)
    found = [row for row in rows if not wanted or row.name == wanted]
    if not found:
        message = f"Chunk {ref} has no question {question!r}."
        if not question:
            message = f"Chunk {ref} has asked no question."
        raise NotFoundError(message, code="approval.question.not_found")

    def order(row: QuestionRow) -> tuple[bool, bool, str]:
        return row.asked_at == asked_at, row.stage == chunk.stage, row.asked_at

    return chunk, max(found, key=order)


def shown(chunk: Chunk, row: QuestionRow, now: float) -> Document:
    """Return a question; its outcome says also that its chunk does not wait for it."""
    document = question_document(chunk.ref, row, now)
    if "outcome" not in document and not is_current(chunk, row):
        document["outcome"] = f"its chunk is {chunk.status}, and does not wait for it"
    return document


def is_current(chunk: Chunk, row: QuestionRow) -> bool:
    """Return whether a chunk waits for an answer to this asking of a question."""
    return (chunk.question, chunk.gen) == (row.name, row.gen)


def question_document(ref: ChunkRef, row: QuestionRow, now: float) -> Document:
    """Return a question as views and programs see it."""
    facts = ("decided_by", "decided_at", "decide_reason")
    document: Document = {
        "job": ref.job,
        "chunk": ref.chunk,
        "stage": row.stage,
        "question": row.name,
        "state": str(row.state),
        "ask": json.loads(row.ask),
        "asked_at": row.asked_at,
        "until": row.until,
        "steps": [step.item for step in row.steps],
        "model": row.model,
        "schema": row.schema,
        **row.pick(facts),
    }
    if row.has_default:
        document["default"] = json.loads(str(row.item["default"]))
    if row.value is not None:
        document["answer"] = json.loads(row.value)
    if outcome := row.outcome(now):
        document["outcome"] = outcome
    return document
