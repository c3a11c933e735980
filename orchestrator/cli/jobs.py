"""`jobs`: list them, look at one, watch it, read its history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.formats import Format
from orchestrator.cli.options import (
    JobArgument,
    OutputOption,
    TimeoutOption,
    limit_option,
)
from orchestrator.cli.run import run_connected

if TYPE_CHECKING:
    from orchestrator.cli.output import Output
    from piecework.runtime import Runtime

app = typer.Typer(help="Look at jobs.", no_args_is_help=True)


@app.command("list")
def list_jobs(
    status: Annotated[
        str | None,
        typer.Option(metavar="STATUS", help="Only these: RUNNING, PARTIAL, …"),
    ] = None,
    limit: Annotated[int, limit_option("Jobs")] = 20,
    output: OutputOption = Format.TABLE,
) -> None:
    """List jobs, the newest first."""

    async def act(rt: Runtime, out: Output) -> None:
        from orchestrator.cli.lists import first, known_status
        from orchestrator.cli.views import job_columns
        from orchestrator.inspector import listed_jobs
        from piecework.model import JobStatus

        wanted = known_status(status, JobStatus)
        found, more = await first(listed_jobs(rt, wanted), limit)
        empty = (
            f"no job is {wanted}; next: piecework jobs list"
            if wanted
            else "no jobs yet; next: piecework submit MODULE:PIPELINE FILE"
        )
        out.rows(found, job_columns(rt.clock()), empty)
        if more and out.table:
            out.say(f"the newest {limit}; --limit 0 lists all")

    run_connected(act, output)


@app.command("show")
def show_job(job: JobArgument, output: OutputOption = Format.TABLE) -> None:
    """Show a job, its chunks counted, and what to type next."""

    async def act(rt: Runtime, out: Output) -> None:
        from orchestrator.cli.views import job_view
        from orchestrator.inspector import job_document, require_job

        document = await job_document(rt, await require_job(rt, job))
        out.document(document, job_view(document, rt.clock()))

    run_connected(act, output)


@app.command("watch")
def watch_job(
    job: JobArgument,
    timeout: TimeoutOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Watch a job until it ends.

    The exit code is 0 when all chunks have a result, 5 when some are dead letters,
    and 1 when the job failed.
    """

    async def act(rt: Runtime, out: Output) -> int:
        from orchestrator.cli.waited import wait_for

        return await wait_for(rt, out, job, module="MODULE", limit_s=timeout)

    run_connected(act, output)


@app.command("events")
def list_events(job: JobArgument, output: OutputOption = Format.TABLE) -> None:
    """List what happened to a job."""

    async def act(rt: Runtime, out: Output) -> None:
        from orchestrator.cli.output import Column
        from orchestrator.inspector import job_events, require_job

        found = await job_events(rt, await require_job(rt, job))
        columns = [
            Column("AT", "at"),
            Column("EVENT", "event"),
            Column(
                "WHAT",
                lambda row: "  ".join(f"{k}={v}" for k, v in row["facts"].items()),
                folds=True,
            ),
        ]
        out.rows(found, columns, "nothing happened yet")

    run_connected(act, output)
