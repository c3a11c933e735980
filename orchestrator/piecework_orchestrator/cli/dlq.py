"""`dlq`: list, count, show and export dead letters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from piecework.domain.dead_letter import DeadLetterRow
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
from piecework_orchestrator.cli.output import Output, encode
from piecework_orchestrator.cli.run import run_connected
from piecework_orchestrator.cli.views.dead_letters import (
    group_columns,
    letter_columns,
    letter_line,
    letter_view,
)
from piecework_orchestrator.files import whole_file
from piecework_orchestrator.inspector import require_job
from piecework_orchestrator.letters import (
    dead_letter_document,
    group_by_cause,
    payload_facts,
)
from piecework_orchestrator.selection import Filter, select


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
            job_id = shown[0].ref.job
            out.say(f"next: piecework dlq show {job_id} {lines[0]['chunk']}")

    run_connected(run, output)


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

    run_connected(run, output)


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
        wanted = Filter(job, code, fingerprint, stage, since, closed=every)
        found = group_by_cause(await select(rt, wanted))
        shown = found[:limit] if limit else found
        out.rows(shown, group_columns(rt.clock()), "no dead letter matches")
        if out.table and shown:
            if len(shown) < len(found):
                out.say(f"only the first {limit} of {len(found)}; --limit 0 lists all")
            out.say(f"next: {shown[0]['next']}")

    run_connected(run, output)


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
        wanted = Filter(job, code, fingerprint, stage, since, chunk, closed=every)
        found = await select(rt, wanted)
        await export(rt, out, found[:limit] if limit else found, to, payload=payload)

    run_connected(run, Format.JSONL)


async def export(
    rt: Runtime,
    out: Output,
    letters: Sequence[DeadLetterRow],
    to: str,
    *,
    payload: bool,
) -> None:
    """Write dead letters, one per line, with the attributes of the table.

    Raises:
        UsageError: `cli.usage.invalid`: the file cannot be written to.
    """
    if not to:
        await write_letters(rt, out.stdout.write, letters, payload=payload)
        return
    with whole_file(Path(to)) as file:
        await write_letters(
            rt, lambda text: file.write(text.encode()), letters, payload=payload
        )
    count = len(letters)
    out.say(f"{count} dead letter{'s' * (count != 1)} written to {to}")


async def write_letters(
    rt: Runtime,
    put: Callable[[str], object],
    letters: Sequence[DeadLetterRow],
    *,
    payload: bool,
) -> None:
    """Write dead letters, optionally with their payloads."""
    for letter in letters:
        facts = letter.facts
        facts["error_history"] = letter.error_history
        if payload:
            facts |= await payload_facts(rt, letter)
        put(encode(facts, Format.JSONL))
