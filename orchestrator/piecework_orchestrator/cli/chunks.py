"""`chunks`: list the chunks of a job, and show one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from piecework_orchestrator.cli.options import (
    ChunkArgument,
    Format,
    JobArgument,
    OutputOption,
    limit_option,
)
from piecework_orchestrator.cli.run import run_connected

if TYPE_CHECKING:
    from piecework.runtime import Runtime
    from piecework_orchestrator.cli.output import Output

app = typer.Typer(help="List and show the chunks of a job.", no_args_is_help=True)


@app.command("list")
def list_chunks(
    job: JobArgument,
    status: Annotated[
        str | None,
        typer.Option(
            metavar="STATUS", help="Only this status, such as RUNNING or DEAD."
        ),
    ] = None,
    limit: Annotated[int, limit_option("Chunks")] = 100,
    output: OutputOption = Format.TABLE,
) -> None:
    """List the chunks of a job by number."""

    async def run(rt: Runtime, out: Output) -> None:
        from piecework.domain.model import ChunkStatus
        from piecework_orchestrator.cli.options import parse_status, take_first
        from piecework_orchestrator.cli.views.chunks import chunk_columns
        from piecework_orchestrator.inspector import read_chunks, require_job

        wanted = parse_status(status, ChunkStatus)
        record = await require_job(rt, job)
        found, more = await take_first(read_chunks(rt, record, wanted), limit)
        empty = (
            f"no chunk has status {wanted}; next: piecework jobs show {job}"
            if wanted
            else f"the job has no chunks yet; next: piecework jobs show {job}"
        )
        out.rows(found, chunk_columns(rt.clock()), empty)
        if more and out.table:
            out.say(f"only the first {limit} are listed; --limit 0 lists all")

    run_connected(run, output)


@app.command("show")
def show_chunk(
    job: JobArgument, chunk: ChunkArgument, output: OutputOption = Format.TABLE
) -> None:
    """Show a chunk with its stages, effects, errors and compensations."""

    async def run(rt: Runtime, out: Output) -> None:
        from piecework_orchestrator.cli.options import parse_chunk
        from piecework_orchestrator.cli.views.chunks import chunk_view
        from piecework_orchestrator.inspector import chunk_document, require_job

        record = await require_job(rt, job)
        document = await chunk_document(rt, record.ref.chunk(parse_chunk(chunk)))
        out.document(document, chunk_view(document, rt.clock()))

    run_connected(run, output)
