"""`jobs`: list, show, watch, cancel, retry and resume jobs; their events and costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli import costs
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
    from orchestrator.cli.run import Connected
    from piecework.model import Job
    from piecework.runtime import Runtime

app = typer.Typer(
    help="List and show jobs; cancel, retry and resume them.", no_args_is_help=True
)
app.command("cost")(costs.job_cost)


@app.command("list")
def list_jobs(
    status: Annotated[
        str | None,
        typer.Option(
            metavar="STATUS", help="Only this status, such as RUNNING or PARTIAL."
        ),
    ] = None,
    limit: Annotated[int, limit_option("Jobs")] = 20,
    output: OutputOption = Format.TABLE,
) -> None:
    """List jobs, the newest first."""

    async def run(rt: Runtime, out: Output) -> None:
        from orchestrator.cli.job_views import job_columns
        from orchestrator.cli.lists import parse_status, take_first
        from orchestrator.job_list import read_jobs
        from piecework.model import JobRef, JobStatus

        wanted = parse_status(status, JobStatus)
        too_new: list[JobRef] = []
        found, more = await take_first(read_jobs(rt, wanted, too_new), limit)
        empty = (
            f"no job has status {wanted}; next: piecework jobs list"
            if wanted
            else "there are no jobs; next: piecework submit MODULE:PIPELINE FILE"
        )
        out.rows(found, job_columns(rt.clock()), empty)
        if more and out.table:
            out.say(f"only the newest {limit} are listed; --limit 0 lists all")
        if too_new:
            names = ", ".join(ref.job for ref in too_new)
            out.say(f"not listed, because a newer version wrote them: {names}")

    run_connected(run, output)


@app.command("show")
def show_job(job: JobArgument, output: OutputOption = Format.TABLE) -> None:
    """Show a job, its chunks by status, and the next command."""

    async def run(rt: Runtime, out: Output) -> None:
        from orchestrator.cli.job_views import job_view
        from orchestrator.inspector import job_document, require_job

        document = await job_document(rt, await require_job(rt, job))
        out.document(document, job_view(document, rt.clock()))

    run_connected(run, output)


@app.command("watch")
def watch_job(
    job: JobArgument,
    timeout: TimeoutOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Watch a job until it ends.

    The exit code is 0 if all chunks have a result, 5 if some are dead letters,
    4 if the job was cancelled, and 1 if it failed.
    """

    async def run(rt: Runtime, out: Output) -> int:
        from orchestrator.cli.times import parse_limit
        from orchestrator.cli.waited import wait_for

        limit_s = parse_limit(timeout)
        return await wait_for(rt, out, job, module="MODULE", limit_s=limit_s)

    run_connected(run, output)


@app.command("events")
def list_events(job: JobArgument, output: OutputOption = Format.TABLE) -> None:
    """List the events of a job, the oldest first."""

    async def run(rt: Runtime, out: Output) -> None:
        from orchestrator.cli.output import Column
        from orchestrator.inspector import job_events, require_job

        found = await job_events(rt, await require_job(rt, job))
        columns = [
            Column("AT", "at"),
            Column("EVENT", "event"),
            Column(
                "FACTS",
                lambda row: "  ".join(f"{k}={v}" for k, v in row["facts"].items()),
                folds=True,
            ),
        ]
        out.rows(found, columns, "the job has no events")

    run_connected(run, output)


@app.command("cancel")
def cancel_job(  # noqa: PLR0913, PLR0917 -- options of a command
    job: JobArgument,
    reason: ReasonOption = "",
    compensate: Annotated[
        bool,
        typer.Option("--compensate", help="Compensate the effects of open chunks."),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="With --compensate: show the compensation plan, change nothing.",
        ),
    ] = False,
    chunk: Annotated[
        str,
        typer.Option(
            metavar="N",
            help="With --dry-run: plan only this chunk.",
            show_default="all that were started",
        ),
    ] = "",
    pipeline: Annotated[
        str,
        typer.Option(
            metavar="MODULE:PIPELINE",
            help="With --dry-run: the job's pipeline; adds compensations and pivot.",
            show_default="only what is on record",
        ),
    ] = "",
    limit: Annotated[int, limit_option("With --dry-run: chunks")] = 20,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Cancel a job; chunks that have a result keep it.

    By default, open chunks keep their effects, and `jobs resume` continues from their
    checkpoints. With --compensate the effects of open chunks are compensated, except
    past the pivot, and `jobs resume` repeats those stages. Add --dry-run to see the
    compensation plan first.
    """

    async def run(rt: Runtime, out: Output) -> None:
        from orchestrator.cancel import cancel
        from orchestrator.cli.asking import confirm
        from orchestrator.cli.submitting import show_job, whoami
        from orchestrator.cli.undoing import check_options, show_plan
        from orchestrator.inspector import MAX_COUNTED_CHUNKS, require_job

        check_options(chunk, pipeline, compensate=compensate, dry_run=dry_run)
        record = await require_job(rt, job)
        if dry_run:
            await show_plan(rt, out, record, chunk, pipeline, limit)
            return
        what = "Cancel and compensate" if compensate else "Cancel"
        await confirm(f"{what} job {job} ({record.status})", out, yes=yes)

        def report_recorded(found: Job) -> None:
            if found.chunks > MAX_COUNTED_CHUNKS:
                out.say(
                    f"the cancel is recorded; cancelling {found.chunks:,} chunks "
                    "continues even if this command is interrupted"
                )

        cancelled = await cancel(
            rt,
            record.ref,
            actor=whoami(),
            reason=reason,
            compensate=compensate,
            on_recorded=report_recorded,
        )
        show_job(out, cancelled)

    run_connected(run, output)


@app.command("retry")
def retry_job(
    job: JobArgument,
    reason: ReasonOption = "",
    deadline: DeadlineOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Retry a job that ended PARTIAL or FAILED.

    Every chunk without a result is processed again from its checkpoint. Discarded
    chunks stay dead. A future deadline stays in force unless --deadline replaces it; a
    deadline that has passed is removed. For a cancelled job use `jobs resume`.
    """
    run_connected(reopening(job, reason, deadline, command="retry"), output)


@app.command("resume")
def resume_job(
    job: JobArgument,
    reason: ReasonOption = "",
    deadline: DeadlineOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Resume a CANCELLED job.

    Every chunk without a result continues from its checkpoint. Discarded chunks stay
    dead. A future deadline stays in force unless --deadline replaces it; a deadline
    that has passed is removed. For a job that ended PARTIAL or FAILED use `jobs retry`.
    """
    run_connected(reopening(job, reason, deadline, command="resume"), output)


def reopening(job: str, reason: str, deadline: str, *, command: str) -> Connected:
    """Return the action of `jobs retry` and of `jobs resume`.

    A job in RESUMING was interrupted while it was reopened: both commands finish it.
    """

    async def run(rt: Runtime, out: Output) -> None:
        from orchestrator.cli.submitting import read_deadline, show_job, whoami
        from orchestrator.inspector import require_job
        from orchestrator.resume import ResumeRequest, resume
        from piecework.model import JobStatus

        record = await require_job(rt, job)
        fitting = {
            JobStatus.PARTIAL: "retry",
            JobStatus.FAILED: "retry",
            JobStatus.CANCELLED: "resume",
        }.get(record.status, command)
        if fitting != command:
            from piecework.errors import UsageError

            message = f"Job {job} is {record.status}: `jobs {command}` does not fit."
            step = f"`piecework jobs {fitting} {job} --reason 'why'`"
            raise UsageError(message, next_step=step)
        until = read_deadline(deadline, rt.clock())
        count, gen = await resume(
            rt, ResumeRequest(record.ref, whoami(), reason, until)
        )
        out.say(f"{count} chunks are reopened in generation {gen}")
        show_job(out, await require_job(rt, job))

    return run
