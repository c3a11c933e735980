"""`jobs`: list, show, watch, cancel, retry and resume jobs; their events and costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from piecework.errors import UsageError
from piecework_orchestrator.cli.cost import (
    ArmOption,
    GbOption,
    PricesOption,
    RegionOption,
    VcpuOption,
)
from piecework_orchestrator.cli.options import (
    DeadlineOption,
    Format,
    JobArgument,
    OutputOption,
    ReasonOption,
    TimeoutOption,
    YesOption,
    limit_option,
    parse_chunk,
    take_first,
)
from piecework_orchestrator.cli.output import Column
from piecework_orchestrator.cli.run import run_connected
from piecework_orchestrator.compensation_plan import (
    PlanRequest,
    compensation_plans,
    pipeline_of,
)

# `jobs cost`: the bill of a job.

if TYPE_CHECKING:
    from piecework.runtime import Runtime
    from piecework_orchestrator.cli.output import Output


def job_cost(
    job: JobArgument,
    region: RegionOption = "",
    prices: PricesOption = None,
    vcpu: VcpuOption = 0.0,
    gb: GbOption = 0.0,
    arm: ArmOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show the cost of a job: requests, units, bytes, busy time, tokens.

    List prices from a dated table, without taxes, discounts and free tiers.
    """

    async def run(rt: Runtime, out: Output) -> None:
        from piecework_orchestrator.cli.views.cost import bill_view
        from piecework_orchestrator.cost.bill import TaskSize
        from piecework_orchestrator.cost.job import job_bill
        from piecework_orchestrator.cost.prices import load_prices
        from piecework_orchestrator.inspector import require_job

        table, priced_in = load_prices(prices), region or region_of(rt)
        record = await require_job(rt, job)
        bill = await job_bill(rt, record, table, priced_in, TaskSize(vcpu, gb, arm))
        out.document(bill, bill_view(bill))

    run_connected(run, output)


def region_of(rt: Runtime) -> str:
    """Return the region of the deployment."""
    return rt.endpoint.region or str(rt.objects.client.meta.region_name)


if TYPE_CHECKING:
    from piecework.domain.model import Job
    from piecework.runtime import Runtime
    from piecework_orchestrator.cli.output import Output
    from piecework_orchestrator.cli.run import Connected

app = typer.Typer(
    help="List and show jobs; cancel, retry and resume them.", no_args_is_help=True
)
app.command("cost")(job_cost)


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
        from piecework.domain.model import JobRef, JobStatus
        from piecework_orchestrator.cli.options import parse_status, take_first
        from piecework_orchestrator.cli.views.jobs import job_columns
        from piecework_orchestrator.inspector import read_jobs

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
        from piecework_orchestrator.cli.views.jobs import job_view
        from piecework_orchestrator.inspector import job_document, require_job

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
        from piecework_orchestrator.cli.progress import wait_for
        from piecework_orchestrator.cli.times import parse_limit

        limit_s = parse_limit(timeout)
        return await wait_for(rt, out, job, module="MODULE", limit_s=limit_s)

    run_connected(run, output)


@app.command("events")
def list_events(job: JobArgument, output: OutputOption = Format.TABLE) -> None:
    """List the events of a job, the oldest first."""

    async def run(rt: Runtime, out: Output) -> None:
        from piecework_orchestrator.cli.output import Column
        from piecework_orchestrator.inspector import job_events, require_job

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
        from piecework_orchestrator.cancel import cancel
        from piecework_orchestrator.cli.run import confirm
        from piecework_orchestrator.cli.submit import show_job, whoami
        from piecework_orchestrator.inspector import MAX_COUNTED_CHUNKS, require_job

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
        from piecework.domain.model import JobStatus
        from piecework_orchestrator.cli.submit import read_deadline, show_job, whoami
        from piecework_orchestrator.inspector import require_job
        from piecework_orchestrator.resume import ResumeRequest, resume

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


# `jobs cancel --compensate --dry-run`: the compensation plan of a job.

if TYPE_CHECKING:
    from piecework.domain.model import Job
    from piecework.runtime import Runtime
    from piecework_orchestrator.cli.output import Output

COLUMNS = [
    Column("CHUNK", "chunk", right=True),
    Column("STAGE", "stage"),
    Column("STATE", "state"),
    Column("COMPENSATE", "compensate"),
    Column("REVERSIBILITY", "reversibility"),
]


def check_options(
    chunk: str, pipeline: str, *, compensate: bool, dry_run: bool
) -> None:
    """Refuse options of `jobs cancel` that do not fit together.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    if dry_run and not compensate:
        message = "--dry-run shows the compensation plan, and requires --compensate."
        raise UsageError(message, next_step="Add --compensate.")
    if (chunk or pipeline) and not dry_run:
        message = "--chunk and --pipeline are valid only with --dry-run."
        step = "Add --dry-run; a cancel is always of the whole job."
        raise UsageError(message, next_step=step)


async def show_plan(
    rt: Runtime, out: Output, job: Job, chunk: str, pipeline: str, limit: int
) -> None:
    """Write what a cancel with --compensate would compensate, in order."""
    only = parse_chunk(chunk) if chunk else None
    request = PlanRequest(job, pipeline_of(job, pipeline), only)
    found, more = await take_first(compensation_plans(rt, request), limit)
    rows = [row for plan in found for row in plan]
    out.rows(rows, COLUMNS, f"nothing to compensate; the job is {job.status}")
    if out.table and rows and not pipeline:
        out.say("compensation functions and the pivot are unknown: add --pipeline")
    if more and out.table:
        out.say(f"only the first {limit} chunks are listed; --limit 0 lists all")
