"""`dlq`: list, count, show and export dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.records import UNREADABLE
from piecework.domain.refs import ChunkRef
from piecework.runtime import Runtime
from piecework_orchestrator.cli.dlq_select import (
    AllOption,
    ChunkOption,
    CodeOption,
    FingerprintOption,
    JobOption,
    LimitOption,
    SinceOption,
    StageOption,
)
from piecework_orchestrator.cli.options import (
    ChunkArgument,
    Format,
    JobArgument,
    OutputOption,
    limit_option,
    parse_chunk,
)
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.progress import DEAD_LETTERS_LEFT, OK
from piecework_orchestrator.cli.run import run_connected
from piecework_orchestrator.cli.views.dead_letters import (
    group_columns,
    letter_columns,
    letter_line,
    letter_view,
)
from piecework_orchestrator.dead_letters.closing import Selection
from piecework_orchestrator.dead_letters.letters import (
    dead_letter_document,
    group_by_cause,
    letter_lines,
    write_letters,
)
from piecework_orchestrator.reading.job_documents import require_job
from piecework_orchestrator.reading.selection import Filter, left_out, select


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
    wanted = Filter(job, code, fingerprint, stage, since, closed=every)

    async def run(rt: Runtime, out: Output) -> None:
        found = await select_readable(rt, wanted, out)
        shown = found[:limit] if limit else found
        lines = [letter_line(letter) for letter in shown]
        out.rows(
            lines, letter_columns(rt.clock(), all_=every), "no dead letter matches"
        )
        if out.table and found:
            if len(shown) < len(found):
                out.say(f"only the newest {limit} of {len(found)}; --limit 0 lists all")
            job_id = shown[0].ref.job
            out.say(f"next: piecework dlq show {job_id} {lines[0]['chunk']}")

    run_connected(run, output, before=wanted.check)


async def select_readable(
    rt: Runtime, wanted: Filter, out: Output
) -> list[DeadLetterRow]:
    """Return the dead letters that match; name those whose rows cannot be read."""
    unreadable = list[ChunkRef]()
    found = await select(rt, wanted, unreadable)
    tell_unreadable(out, unreadable)
    return found


def tell_unreadable(out: Output, unreadable: Sequence[ChunkRef]) -> int:
    """Name dead letters that were left out; return the exit code."""
    if not unreadable:
        return OK
    out.tell(left_out(unreadable))
    out.tell(f"next: piecework explain-code {UNREADABLE}")
    return DEAD_LETTERS_LEFT


def left_over(taken: Selection, selection: Selection) -> int:
    """Return the exit code of a command that leaves out jobs of its selection."""
    return DEAD_LETTERS_LEFT if len(taken.by_job) < len(selection.by_job) else OK


def show_letter(
    job: JobArgument, chunk: ChunkArgument, output: OutputOption = Format.TABLE
) -> None:
    """Show the last dead letter of a chunk.

    With its error history, its earlier deaths and its payload.
    """

    async def run(rt: Runtime, out: Output) -> None:
        record = await require_job(rt, job)
        document = await dead_letter_document(rt, record.ref.chunk(parse_chunk(chunk)))
        out.document(document, letter_view(document, rt.clock()))

    run_connected(run, output, before=lambda: parse_chunk(chunk))


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
    wanted = Filter(job, code, fingerprint, stage, since, closed=every)

    async def run(rt: Runtime, out: Output) -> None:
        found = group_by_cause(await select_readable(rt, wanted, out))
        shown = found[:limit] if limit else found
        out.rows(shown, group_columns(rt.clock()), "no dead letter matches")
        if out.table and shown:
            if len(shown) < len(found):
                out.say(f"only the first {limit} of {len(found)}; --limit 0 lists all")
            out.say(f"next: {shown[0]['next']}")

    run_connected(run, output, before=wanted.check)


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
            metavar="FILE",
            help="The file to write, or s3://bucket/key.",
            show_default="standard output",
        ),
    ] = "",
) -> None:
    """Export dead letters completely, one JSON document per line."""
    wanted = Filter(job, code, fingerprint, stage, since, chunk, closed=every)

    async def run(rt: Runtime, out: Output) -> int:
        unreadable = list[ChunkRef]()
        found = await select(rt, wanted, unreadable)
        found = found[:limit] if limit else found
        if to:
            count = await write_letters(
                rt, found, to, payloads=payload, unreadable=unreadable
            )
            out.say(f"{count} dead letter{'s' * (count != 1)} written to {to}")
        else:
            async for line in letter_lines(
                rt, found, payloads=payload, unreadable=unreadable
            ):
                out.stdout.write(line)
        return tell_unreadable(out, unreadable)

    run_connected(run, Format.JSONL, plain_errors=True, before=wanted.check)
