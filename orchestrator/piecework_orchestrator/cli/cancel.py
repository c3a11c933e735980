"""`jobs cancel`: cancel a job, or show the compensation plan of the cancel."""

from __future__ import annotations

from typing import Annotated

import typer

from piecework.domain.job import Job
from piecework.errors import UsageError
from piecework.runtime import Runtime
from piecework_orchestrator.cli.options import (
    Format,
    JobArgument,
    OutputOption,
    ReasonOption,
    YesOption,
    limit_option,
    parse_chunk,
    take_first,
)
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.progress import show_steps
from piecework_orchestrator.cli.run import confirm, run_client
from piecework_orchestrator.cli.table import Column
from piecework_orchestrator.cli.views.jobs import show_facts
from piecework_orchestrator.client import Client
from piecework_orchestrator.operate.compensation_plan import (
    PlanRequest,
    compensation_plans,
    pipeline_of,
)
from piecework_orchestrator.reading.job_documents import require_job
from piecework_orchestrator.reading.job_list import MAX_COUNTED_CHUNKS

COLUMNS = [
    Column("CHUNK", "chunk", right=True),
    Column("STAGE", "stage"),
    Column("STATE", "state"),
    Column("COMPENSATE", "compensate"),
    Column("REVERSIBILITY", "reversibility", drops=1),
]


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

    By default, open chunks keep their effects, and `jobs retry` continues from their
    checkpoints. With --compensate the effects of open chunks are compensated, except
    past the pivot, and `jobs retry` repeats those stages. Add --dry-run to see the
    compensation plan first.
    """

    async def run(client: Client, out: Output) -> None:
        check_options(chunk, pipeline, compensate=compensate, dry_run=dry_run)
        handle, rt = client.job(job), client.runtime
        if dry_run:
            record = await require_job(rt, job)
            await show_plan(rt, out, record, chunk, pipeline, limit)
            return
        facts = await handle.facts()
        what = "Cancel and compensate" if compensate else "Cancel"
        await confirm(f"{what} job {job} ({facts.status})", out, yes=yes)

        def report_recorded(found: Job) -> None:
            if found.chunks > MAX_COUNTED_CHUNKS:
                out.say(
                    f"the cancel is recorded; cancelling {found.chunks:,} chunks "
                    "continues even if this command is interrupted"
                )

        with show_steps(out, facts.chunks) as progress:
            cancelled = await handle.cancel(
                reason,
                compensate=compensate,
                on_recorded=report_recorded,
                on_progress=progress,
            )
        show_facts(out, cancelled)

    run_client(run, output)


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
