"""`jobs`: list, show and watch jobs, and list their events."""

from __future__ import annotations

from typing import Annotated

import typer

from piecework.domain.tags import parse_tags
from piecework.reading import Reading
from piecework_orchestrator.cli.completion import complete_job_status
from piecework_orchestrator.cli.job_list import JobList
from piecework_orchestrator.cli.options import (
    Format,
    JobArgument,
    JobOrder,
    OutputOption,
    TimeoutOption,
    limit_option,
    parse_chunk,
)
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.run import run_reading
from piecework_orchestrator.cli.table import Column
from piecework_orchestrator.cli.views.jobs import (
    event_facts_text,
    finding_columns,
    finish_text,
    job_view,
    stop_lines,
    tombstone_view,
    without_certificate,
)
from piecework_orchestrator.cli.views.timeline import timeline_view
from piecework_orchestrator.reading.events import job_events
from piecework_orchestrator.reading.job_documents import (
    explain,
    job_document,
    job_facts,
    read_certificate,
    read_job,
    require_job,
)
from piecework_orchestrator.reading.job_list import JobFilter
from piecework_orchestrator.reading.timeline import chunk_timeline, job_timeline
from piecework_orchestrator.reading.times import parse_limit


def list_jobs(
    status: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATUS",
            help="Only this status, such as RUNNING or PARTIAL; repeatable.",
            autocompletion=complete_job_status,
        ),
    ] = None,
    pipeline: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Only this pipeline; `review*` for all that begin with `review`.",
            show_default="all",
        ),
    ] = "*",
    since: Annotated[
        str,
        typer.Option(
            metavar="SPAN",
            help="Only jobs created within this span: 30m, 1h, 2d.",
            show_default="all",
        ),
    ] = "",
    tag: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Only jobs with this tag, such as team=legal; repeatable.",
            show_default="all",
        ),
    ] = None,
    sort: Annotated[
        JobOrder, typer.Option("--sort", help="The order of the list.")
    ] = JobOrder.CREATED,
    follow: Annotated[
        bool,
        typer.Option(
            "-w",
            "--watch",
            help="Write the list again when it changes, until all its jobs have ended.",
        ),
    ] = False,
    limit: Annotated[int, limit_option("Jobs")] = 20,
    output: OutputOption = Format.TABLE,
) -> None:
    """List jobs, the newest first."""

    def wanted() -> JobFilter:
        return JobFilter.parse(status or (), pipeline, since, parse_tags(tag or ()))

    async def run(rt: Reading, out: Output) -> None:
        await JobList(rt, out, wanted(), sort, limit).write(watch=follow)

    run_reading(run, output, before=wanted)


def show_job(
    job: JobArgument,
    output: OutputOption = Format.TABLE,
    certificate: Annotated[
        bool,
        typer.Option(
            "--certificate", help="With -o: the certificate, which names every chunk."
        ),
    ] = False,
) -> None:
    """Show a job, its chunks by status, and the next command."""

    async def run(rt: Reading, out: Output) -> None:
        record = await read_job(rt, job)
        if record.status.gone:
            stone = job_facts(record, rt.clock())
            out.document(stone, tombstone_view(stone, rt.clock()))
            return
        document = await job_document(rt, record)
        shown = without_certificate(document)
        if certificate:
            shown = {**document, "certificate": await read_certificate(rt, record)}
        out.document(shown, job_view(document, rt.clock()))

    run_reading(run, output)


def watch_job(
    job: JobArgument,
    timeout: TimeoutOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Watch a job until it ends.

    The exit code is 0 if the job SUCCEEDED, and 4 if it was cancelled. It is 5 if the
    job is PARTIAL with open dead letters, and 1 otherwise.
    """

    async def run(rt: Reading, out: Output) -> int:
        from piecework_orchestrator.cli.progress import wait_for  # draws with rich

        limit_s = parse_limit(timeout)
        return await wait_for(rt, out, job, module="MODULE", limit_s=limit_s)

    run_reading(run, output, before=lambda: parse_limit(timeout))


def explain_job(job: JobArgument, output: OutputOption = Format.TABLE) -> None:
    """Explain why a job has not ended, and which command helps.

    The first finding is the most important one. Each has a code; the page of the
    findings has all codes.
    """

    async def run(rt: Reading, out: Output) -> None:
        document = await explain(rt, await require_job(rt, job))
        findings = document["findings"]
        if out.table:
            out.rows(findings, finding_columns(rt.clock()), "")
            if document["finish"] is not None:
                out.say(f"the chunks end {finish_text(document)}")
            if (stopped := document["stopped"]) is not None:
                out.say("\n".join(stop_lines(stopped)))
            for command in dict.fromkeys(finding["next"] for finding in findings):
                out.say(f"next: {command}")
        else:
            out.document(document, lambda _: None)

    run_reading(run, output)


def show_timeline(
    job: JobArgument,
    chunk: Annotated[
        str,
        typer.Argument(
            help="A chunk's number, or `join`.", show_default="the whole job"
        ),
    ] = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Draw what happened to a job or a chunk, and when.

    A job has its phases and its slowest chunks; a chunk its claims, waits and stages.
    """

    async def run(rt: Reading, out: Output) -> None:
        record = await require_job(rt, job)
        if chunk:
            ref = record.ref.chunk(parse_chunk(chunk))
            document = await chunk_timeline(rt, record, ref)
        else:
            document = await job_timeline(rt, record)
        out.document(document, timeline_view(document))

    run_reading(run, output)


def list_events(job: JobArgument, output: OutputOption = Format.TABLE) -> None:
    """List the events of a job, the oldest first."""

    async def run(rt: Reading, out: Output) -> None:
        found = await job_events(rt, await require_job(rt, job))
        columns = [
            Column("AT", "at"),
            Column("EVENT", "event"),
            Column("FACTS", event_facts_text, folds=True),
        ]
        out.rows(found, columns, "the job has no events")

    run_reading(run, output)
