"""`dlq`: list, count, show and export dead letters; redrive or discard them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.dead_letter_acts import discard_letters, redrive_letters
from orchestrator.cli.formats import Format
from orchestrator.cli.letter_options import (
    AllOption,
    ChunkOption,
    CodeOption,
    FingerprintOption,
    JobOption,
    LimitOption,
    SinceOption,
    StageOption,
)
from orchestrator.cli.options import (
    ChunkArgument,
    JobArgument,
    OutputOption,
    limit_option,
)
from orchestrator.cli.run import run_connected

if TYPE_CHECKING:
    from orchestrator.cli.output import Output
    from piecework.runtime import Runtime

app = typer.Typer(
    help="List, redrive, discard and export dead letters.",
    no_args_is_help=True,
)


@app.command("list")
def list_letters(
    job: JobOption = None,
    code: CodeOption = None,
    fingerprint: FingerprintOption = None,
    stage: StageOption = None,
    since: SinceOption = None,
    limit: LimitOption = 50,
    every: AllOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """List dead letters, the newest first."""

    async def run(rt: Runtime, out: Output) -> None:
        from orchestrator.cli.letter_views import letter_columns, letter_line
        from orchestrator.cli.letters import Filter, select

        wanted = Filter(job, code, fingerprint, stage, since, closed=every)
        found = await select(rt, wanted)
        shown = found[:limit] if limit else found
        lines = [letter_line(letter) for letter in shown]
        out.rows(
            lines, letter_columns(rt.clock(), all_=every), "no dead letter matches"
        )
        if out.table and found:
            if len(shown) < len(found):
                out.say(f"only the newest {limit} of {len(found)}; --limit 0 lists all")
            one = shown[0]
            out.say(f"next: piecework dlq show {one['job']} {lines[0]['chunk']}")

    run_connected(run, output)


@app.command("show")
def show_letter(
    job: JobArgument, chunk: ChunkArgument, output: OutputOption = Format.TABLE
) -> None:
    """Show the last dead letter of a chunk.

    With its error history, its earlier deaths and its payload.
    """

    async def run(rt: Runtime, out: Output) -> None:
        from orchestrator.cli.letter_story import dead_letter_document
        from orchestrator.cli.letter_views import letter_view
        from orchestrator.cli.lists import parse_chunk
        from orchestrator.inspector import require_job

        record = await require_job(rt, job)
        document = await dead_letter_document(rt, record.ref.chunk(parse_chunk(chunk)))
        out.document(document, letter_view(document, rt.clock()))

    run_connected(run, output)


@app.command("stats")
def count_letters(
    job: JobOption = None,
    code: CodeOption = None,
    fingerprint: FingerprintOption = None,
    stage: StageOption = None,
    since: SinceOption = None,
    limit: Annotated[int, limit_option("Causes")] = 50,
    every: AllOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Count dead letters by cause, the most frequent first."""

    async def run(rt: Runtime, out: Output) -> None:
        from orchestrator.cli.letter_groups import group_by_cause, group_columns
        from orchestrator.cli.letters import Filter, select

        wanted = Filter(job, code, fingerprint, stage, since, closed=every)
        found = group_by_cause(await select(rt, wanted))
        shown = found[:limit] if limit else found
        out.rows(shown, group_columns(rt.clock()), "no dead letter matches")
        if out.table and shown:
            if len(shown) < len(found):
                out.say(f"only the first {limit} of {len(found)}; --limit 0 lists all")
            out.say(f"next: {shown[0]['next']}")

    run_connected(run, output)


@app.command("export")
def export_letters(  # noqa: PLR0913, PLR0917 -- filters, each wanted alone
    job: JobOption = None,
    code: CodeOption = None,
    fingerprint: FingerprintOption = None,
    stage: StageOption = None,
    since: SinceOption = None,
    chunk: ChunkOption = None,
    limit: LimitOption = 0,
    every: AllOption = False,
    payload: Annotated[
        bool, typer.Option("--payload", help="Include the payloads.")
    ] = False,
    to: Annotated[
        str,
        typer.Option(
            metavar="FILE", help="The file to write.", show_default="standard output"
        ),
    ] = "",
) -> None:
    """Export dead letters completely, one JSON document per line."""

    async def run(rt: Runtime, out: Output) -> None:
        from orchestrator.cli.exporting import export
        from orchestrator.cli.letters import Filter, select

        wanted = Filter(job, code, fingerprint, stage, since, chunk, closed=every)
        found = await select(rt, wanted)
        await export(rt, out, found[:limit] if limit else found, to, payload=payload)

    run_connected(run, Format.JSONL)


app.command("discard")(discard_letters)
app.command("redrive")(redrive_letters)
