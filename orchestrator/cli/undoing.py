"""`jobs undo-plan`: what a cancel with --compensate would undo now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.formats import Format
from orchestrator.cli.options import JobArgument, OutputOption, limit_option
from orchestrator.cli.run import run_connected

if TYPE_CHECKING:
    from orchestrator.cli.output import Output
    from piecework.runtime import Runtime


def undo_plan(
    job: JobArgument,
    chunk: Annotated[
        str,
        typer.Argument(help="Only this chunk.", show_default="all that were begun"),
    ] = "",
    pipeline: Annotated[
        str,
        typer.Option(
            metavar="MODULE:PIPELINE",
            help="The job's pipeline, which says what undoes a stage, and its pivot.",
            show_default="only what the record tells",
        ),
    ] = "",
    limit: Annotated[int, limit_option("Chunks")] = 20,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show what `jobs cancel --compensate` would undo, in its order; change nothing."""

    async def act(rt: Runtime, out: Output) -> None:
        from orchestrator.cli.lists import chunk_number, first
        from orchestrator.cli.output import Column
        from orchestrator.inspector import require_job
        from orchestrator.undo_plan import Asked, declared, plans

        record = await require_job(rt, job)
        only = chunk_number(chunk) if chunk else None
        asked = Asked(record, declared(record, pipeline), only)
        found, more = await first(plans(rt, asked), limit)
        columns = [
            Column("CHUNK", "chunk", right=True),
            Column("STAGE", "stage"),
            Column("STATE", "state"),
            Column("COMPENSATE", "compensate"),
            Column("UNDO", "undo"),
        ]
        rows = [row for plan in found for row in plan]
        out.rows(rows, columns, f"nothing would be undone; the job is {record.status}")
        if out.table and rows and not pipeline:
            out.say("what undoes a stage, and the pivot, are not known: add --pipeline")
        if more and out.table:
            out.say(f"the first {limit} chunks; --limit 0 lists all")

    run_connected(act, output)
