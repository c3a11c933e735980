"""`chunks`: list the chunks of a job, and show one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from piecework.domain.states import ChunkStatus
from piecework.errors import UsageError
from piecework.explain.changed import OLD_MAY_RUN, accept_command
from piecework.reading import Reading
from piecework_orchestrator.cli.completion import complete_chunk_status
from piecework_orchestrator.cli.options import (
    ChunkArgument,
    Format,
    JobArgument,
    OutputOption,
    parse_chunk,
    take_first,
)
from piecework_orchestrator.cli.output import Output, encode
from piecework_orchestrator.cli.run import run_client, run_reading
from piecework_orchestrator.cli.views.calls import CALL_COLUMNS, call_view
from piecework_orchestrator.cli.views.chunks import chunk_columns, chunk_view
from piecework_orchestrator.reading.call_documents import (
    call_document,
    call_documents,
)
from piecework_orchestrator.reading.chunk_documents import (
    chunk_document,
    read_chunks,
    result_document,
)
from piecework_orchestrator.reading.job_documents import require_job
from piecework_orchestrator.reading.job_list import parse_status
from piecework_orchestrator.reading.times import count

if TYPE_CHECKING:
    from piecework_orchestrator.client import Client

#: Rows that a person reads on one page.
TABLE_ROWS = 100


def list_chunks(
    job: JobArgument,
    status: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATUS",
            help="Only this status, such as RUNNING or DEAD; repeatable.",
            autocompletion=complete_chunk_status,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--limit",
            metavar="N",
            min=0,
            help="Chunks at most; 0 for all, as in each format but the table.",
            show_default=f"{TABLE_ROWS} in the table",
        ),
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """List the chunks of a job by number."""

    async def run(rt: Reading, out: Output) -> None:
        wanted = {parse_status(each, ChunkStatus) for each in status or ()}
        record = await require_job(rt, job)
        # A program that reads the chunks must not miss one without a word.
        most = limit if limit is not None else TABLE_ROWS if out.table else 0
        if not most and out.format is Format.JSONL:
            async for each in read_chunks(rt, record, wanted):
                out.stdout.write(encode(each, out.format))
            return
        found, more = await take_first(read_chunks(rt, record, wanted), most)
        empty = (
            f"no chunk has status {' or '.join(sorted(wanted))}; "
            f"next: piecework jobs show {job}"
            if wanted
            else f"the job has no chunks yet; next: piecework jobs show {job}"
        )
        out.rows(found, chunk_columns(rt.clock()), empty)
        if more and out.table:
            out.say(f"only the first {most} are listed; --limit 0 lists all")

    run_reading(
        run,
        output,
        before=lambda: [parse_status(each, ChunkStatus) for each in status or ()],
    )


def show_chunk(
    job: JobArgument, chunk: ChunkArgument, output: OutputOption = Format.TABLE
) -> None:
    """Show a chunk with its stages, effects, errors, compensations and result."""

    async def run(rt: Reading, out: Output) -> None:
        record, number = await require_job(rt, job), parse_chunk(chunk)
        document = await chunk_document(rt, record, number)
        document |= await result_document(rt, record, number)
        out.document(document, chunk_view(document, rt.clock()))
        if out.table and "stopped" in document:
            out.say(OLD_MAY_RUN)
            out.say(f"next: {accept_command(job)}")

    run_reading(run, output, before=lambda: parse_chunk(chunk))


def list_calls(
    job: JobArgument,
    chunk: Annotated[
        str,
        typer.Argument(
            help="The chunk's number, or `join`; with --to: all chunks without it.",
            show_default=False,
        ),
    ] = "",
    call: Annotated[
        int | None,
        typer.Option(
            "--call",
            metavar="K",
            min=1,
            help="Show this call of the list, with its arguments and answer.",
            show_default="all calls as a list",
        ),
    ] = None,
    to: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Write one row a call to this .jsonl, .csv or .parquet file instead, "
            "a path or s3://bucket/key.",
            show_default=False,
        ),
    ] = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """List the calls of a chunk, or show one with its arguments and answer.

    With --to, write how each call of the chunk, or of the whole job, went.
    """
    if to:
        write_calls(job, chunk, to, call, output)
        return

    async def run(rt: Reading, out: Output) -> None:
        record, number = await require_job(rt, job), parse_chunk(chunk)
        if call is not None:
            document = await call_document(rt, record, number, call)
            out.document(document, call_view(document))
            return
        found = await call_documents(rt, record, number)
        next_step = f"piecework chunks show {job} {chunk}"
        empty = f"no call of the chunk has ended; next: {next_step}"
        out.rows(found, CALL_COLUMNS, empty)
        if found and out.table:
            out.say(f"next: piecework chunks calls {job} {chunk} --call 1")

    def check() -> None:
        if not chunk:
            message = "Name a chunk, or write the calls of all chunks by --to FILE."
            raise UsageError(message, next_step=f"`piecework chunks list {job}`")
        parse_chunk(chunk)

    run_reading(run, output, before=check)


def write_calls(
    job: str, chunk: str, to: str, call: int | None, output: Format
) -> None:
    """Write the calls of a chunk, or of a job, to a file."""

    def check() -> None:
        from piecework_orchestrator.results.export import writer_of

        if call is not None:
            message = "--call and --to exclude each other."
            raise UsageError(message, next_step="Remove --call or --to.")
        if chunk:
            parse_chunk(chunk)
        writer_of(to)

    async def run(client: Client, out: Output) -> None:
        only = parse_chunk(chunk) if chunk else None
        number = await client.job(job).export_calls(to, only)
        out.say(f"{count(number, 'call')} in {to}")

    run_client(run, output, before=check)
