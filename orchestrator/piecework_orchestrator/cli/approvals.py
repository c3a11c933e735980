"""`approvals`: list the questions that wait for a person, show one, and answer it."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console

from piecework.domain.question import StepKind
from piecework.domain.refs import JobRef
from piecework.errors import UsageError
from piecework.loading import load_pipeline
from piecework.reading import Reading
from piecework.settings import Settings
from piecework_orchestrator.cli.completion import complete_job
from piecework_orchestrator.cli.options import (
    ChunkArgument,
    Format,
    JobArgument,
    OutputOption,
    ReasonOption,
    limit_option,
    parse_chunk,
    take_first,
)
from piecework_orchestrator.cli.output import Output, facts
from piecework_orchestrator.cli.run import run_client, run_reading
from piecework_orchestrator.cli.table import Column, Document, clean
from piecework_orchestrator.client import Client
from piecework_orchestrator.dead_letters.letters import chunk_name
from piecework_orchestrator.operate.approvals import chunk_question, open_questions
from piecework_orchestrator.reading.job_documents import require_job
from piecework_orchestrator.reading.times import format_ago

QuestionOption = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="The name of the question.", show_default="the open one"
    ),
]


def list_approvals(
    job: Annotated[
        str,
        typer.Option(
            metavar="JOB",
            help="Only questions of this job.",
            autocompletion=complete_job,
        ),
    ] = "",
    limit: Annotated[int, limit_option("Questions")] = 100,
    output: OutputOption = Format.TABLE,
) -> None:
    """List the open questions of stages; within a job, the next due first."""

    async def run(rt: Reading, out: Output) -> None:
        too_new: list[JobRef] = []
        found, more = await take_first(open_questions(rt, job, too_new), limit)
        columns = [
            Column("JOB", "job"),
            Column("CHUNK", lambda row: chunk_name(row["chunk"]), right=True),
            Column("QUESTION", "question"),
            Column("STAGE", "stage", drops=2),
            Column("ASKED", lambda row: format_ago(row["asked_at"], rt.clock())),
            Column("UNTIL", "until", drops=1),
            Column("ASK", ask_cell, shrinks=True),
        ]
        out.rows(found, columns, "no question is open")
        if more and out.table:
            out.say(f"only the first {limit} are listed; --limit 0 lists all")
        if too_new:
            names = ", ".join(ref.job for ref in too_new)
            out.say(f"not listed, because a newer version wrote them: {names}")
        if found and out.table:
            first = found[0]
            chunk = chunk_name(first["chunk"])
            out.say(f"next: piecework approvals show {first['job']} {chunk}")

    run_reading(run, output)


def show_approval(
    job: JobArgument,
    chunk: ChunkArgument,
    question: QuestionOption = "",
    to: Annotated[
        str,
        typer.Option(
            metavar="PERSON",
            help="The person who gets the link: the actor in the record.",
        ),
    ] = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Show a question of a chunk, and the answer that counts.

    With PIECEWORK_ANSWER_URL an open question has a link by which a person answers it.
    """

    async def run(rt: Reading, out: Output) -> None:
        record = await require_job(rt, job)
        ref = record.ref.chunk(parse_chunk(chunk))
        document: Document = await chunk_question(rt, ref, question)
        try:
            document = with_link(document, rt.settings, to)
        except UsageError as error:
            out.say(f"shown without a link: {error.message}")
        out.document(document, lambda console: draw(console, document))
        if out.table and "outcome" not in document:
            out.say(f"next: {answer_step(document)}")

    run_reading(run, output)


def with_link(document: Document, settings: Settings, to: str) -> Document:
    """Return a question with the link by which `to` answers it, if links are on.

    Raises:
        UsageError: `webhook.variable.missing`, `approval.link.invalid`.
    """
    if to and not settings.answer_url:
        message = "The process has no variable PIECEWORK_ANSWER_URL."
        raise UsageError(message, code="webhook.variable.missing")
    if "outcome" in document or not settings.answer_url:
        return document
    from piecework.webhooks.answer_links import AnswerLinks

    links = AnswerLinks.configured(settings)
    return {**document, "answer_url": links.link(document, to) if links else ""}


def answer_approval(  # noqa: PLR0913, PLR0917 -- the options of one command
    job: JobArgument,
    chunk: ChunkArgument,
    approve: Annotated[
        bool, typer.Option("--approve", help="Answer yes, with the reason.")
    ] = False,
    reject: Annotated[
        bool, typer.Option("--reject", help="Answer no, with the reason.")
    ] = False,
    value: Annotated[
        str,
        typer.Option(metavar="JSON", help="The answer as JSON."),
    ] = "",
    reason: ReasonOption = "",
    question: QuestionOption = "",
    pipeline: Annotated[
        str,
        typer.Option(
            metavar="MODULE:NAME",
            help="Check --value with the models of this pipeline's module.",
            show_default=False,
        ),
    ] = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Answer the open question of a chunk; its stage goes on at once.

    Exactly one answer counts. A second one, or one after the question's time, is
    refused with what was decided, and by whom.
    """

    async def run(client: Client, out: Output) -> None:
        given = read_answer(value, approve=approve, reject=reject, reason=reason)
        if pipeline:
            load_pipeline(pipeline)
        handle = client.job(job)
        document = await handle.answer(
            parse_chunk(chunk), given, reason, question=question
        )
        out.document(document, lambda console: draw(console, document))

    def check() -> None:
        read_answer(value, approve=approve, reject=reject, reason=reason)
        parse_chunk(chunk)
        if pipeline:
            load_pipeline(pipeline)

    run_client(run, output, before=check)


def read_answer(value: str, *, approve: bool, reject: bool, reason: str) -> Any:
    """Return the answer that the options give.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    if approve + reject + bool(value) != 1:
        message = "An answer needs one of --approve, --reject and --value."
        step = "piecework approvals answer JOB CHUNK --approve --reason 'why'"
        raise UsageError(message, next_step=step)
    if not value:
        return {"approved": approve, "comment": reason}
    try:
        return json.loads(value)
    except ValueError as error:
        message = f"--value is not JSON: {error}."
        step = "Quote it for the shell: --value '{\"amount\": 3}'."
        raise UsageError(message, next_step=step) from error


def ask_cell(row: Document) -> str:
    """Return what a question asks, on one line."""
    ask = row["ask"]
    return clean(ask if isinstance(ask, str) else json.dumps(ask, ensure_ascii=False))


def answer_step(document: Document) -> str:
    """Return the command that answers a question."""
    place = f"{document['job']} {chunk_name(document['chunk'])}"
    simple = "approved" in document["schema"].get("properties", {})
    how = "--approve" if simple else "--value JSON --pipeline MODULE:NAME"
    return f"piecework approvals answer {place} {how} --reason WHY"


def draw(console: Console, document: Document) -> None:
    """Draw a question."""
    shown = {name: each for name, each in document.items() if name not in LATER}
    shown["ask"] = ask_cell(document)
    for name in ("default", "answer"):
        if name in document:
            shown[name] = json.dumps(document[name], ensure_ascii=False)
    for step in document["steps"]:
        if step["kind"] == StepKind.ASK:
            continue  # it is `asked_at`
        to = f" {step['to']}" if "to" in step else ""
        shown[f"{step['kind']}{to}"] = step["at"]
    fields = document["schema"].get("properties", {})
    shown["fields"] = ", ".join(
        f"{name}: {field.get('type', 'any')}" for name, field in fields.items()
    )
    console.print(facts(shown.items()))


#: What `draw` shows in its own way.
LATER = {"ask", "default", "answer", "steps", "schema"}
