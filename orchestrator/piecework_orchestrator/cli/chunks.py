"""`chunks`: list the chunks of a job, and show one."""

from __future__ import annotations

from typing import Annotated

import typer

from piecework.domain.states import ChunkStatus
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
from piecework_orchestrator.cli.run import run_reading
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

    run_reading(run, output, before=lambda: parse_chunk(chunk))


def list_calls(
    job: JobArgument,
    chunk: ChunkArgument,
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
    output: OutputOption = Format.TABLE,
) -> None:
    """List the calls of a chunk, or show one with its arguments and answer."""

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

    run_reading(run, output, before=lambda: parse_chunk(chunk))
