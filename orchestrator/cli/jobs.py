"""`jobs`: list them, look at one, watch it, read its history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli import costs, undoing
from orchestrator.cli.formats import Format
from orchestrator.cli.options import (
    DeadlineOption,
    JobArgument,
    OutputOption,
    ReasonOption,
    TimeoutOption,
    YesOption,
    limit_option,
)
from orchestrator.cli.run import run_connected

if TYPE_CHECKING:
    from orchestrator.cli.output import Output
    from piecework.model import Job
    from piecework.runtime import Runtime

app = typer.Typer(help="Look at jobs; cancel and resume them.", no_args_is_help=True)
app.command("undo-plan")(undoing.undo_plan)
app.command("cost")(costs.job_cost)


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
        from orchestrator.cli.job_views import job_columns
        from orchestrator.cli.lists import first, known_status
        from orchestrator.job_list import listed_jobs
        from piecework.model import JobRef, JobStatus

        wanted = known_status(status, JobStatus)
        newer: list[JobRef] = []
        found, more = await first(listed_jobs(rt, wanted, newer), limit)
        empty = (
            f"no job is {wanted}; next: piecework jobs list"
            if wanted
            else "no jobs yet; next: piecework submit MODULE:PIPELINE FILE"
        )
        out.rows(found, job_columns(rt.clock()), empty)
        if more and out.table:
            out.say(f"the newest {limit}; --limit 0 lists all")
        if newer:
            names = ", ".join(ref.job for ref in newer)
            out.say(f"not listed, for a later version knows them: {names}")

    run_connected(act, output)


@app.command("show")
def show_job(job: JobArgument, output: OutputOption = Format.TABLE) -> None:
    """Show a job, its chunks counted, and what to type next."""

    async def act(rt: Runtime, out: Output) -> None:
        from orchestrator.cli.job_views import job_view
        from orchestrator.inspector import job_document, require_job

        document = await job_document(rt, await require_job(rt, job))
        out.document(document, job_view(document, rt.clock()))

    run_connected(act, output)


@app.command("watch")
def watch_job(
    job: JobArgument,
    timeout: TimeoutOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Watch a job until it ends.

    The exit code is 0 when all chunks have a result, 5 when some are dead letters,
    4 when the job was cancelled, and 1 when it failed.
    """

    async def act(rt: Runtime, out: Output) -> int:
        from orchestrator.cli.times import parse_limit
        from orchestrator.cli.waited import wait_for

        limit_s = parse_limit(timeout)
        return await wait_for(rt, out, job, module="MODULE", limit_s=limit_s)

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


@app.command("cancel")
def cancel_job(
    job: JobArgument,
    reason: ReasonOption = "",
    compensate: Annotated[
        bool,
        typer.Option("--compensate", help="Undo what unfinished chunks have done."),
    ] = False,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Cancel a job; what has a result keeps it.

    What unfinished chunks have done stays done, and a resume goes on from there;
    with --compensate it is undone, up to the pivot, and a resume does it anew.
    """

    async def act(rt: Runtime, out: Output) -> None:
        from orchestrator.cancel import cancel
        from orchestrator.cli.asking import confirm
        from orchestrator.cli.submitting import show, whoami
        from orchestrator.inspector import LOOKED_AT, require_job

        record = await require_job(rt, job)
        what = "Cancel and undo" if compensate else "Cancel"
        await confirm(f"{what} job {job} ({record.status})", out, yes=yes)

        def stopping(found: Job) -> None:
            if found.chunks > LOOKED_AT:
                out.say(
                    f"cancelled on record; letting go of its {found.chunks:,} chunks, "
                    "which goes on without this command, too"
                )

        cancelled = await cancel(
            rt,
            record.ref,
            actor=whoami(),
            reason=reason,
            compensate=compensate,
            stopping=stopping,
        )
        show(out, cancelled)

    run_connected(act, output)


@app.command("resume")
def resume_job(
    job: JobArgument,
    reason: ReasonOption = "",
    deadline: DeadlineOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Take up every chunk of an ended job that has no result.

    A deadline that lies ahead stands unless there is a new one; one that has passed
    goes.
    """

    async def act(rt: Runtime, out: Output) -> None:
        from orchestrator.cli.submitting import read_deadline, show, whoami
        from orchestrator.inspector import require_job
        from orchestrator.resume import Resume, resume

        record = await require_job(rt, job)
        until = read_deadline(deadline, rt.clock())
        count, gen = await resume(rt, Resume(record.ref, whoami(), reason, until))
        out.say(f"{count} chunks are taken up again, in generation {gen}")
        show(out, await require_job(rt, job))

    run_connected(act, output)
