"""`jobs cancel --compensate --dry-run`: the compensation plan of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.cli.lists import parse_chunk, take_first
from orchestrator.cli.output import Column
from orchestrator.undo_plan import PlanRequest, compensation_plans, pipeline_of
from piecework.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.cli.output import Output
    from piecework.model import Job
    from piecework.runtime import Runtime

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
