"""`dlq`: the dead letters; list them, read one's story, hand them out again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.formats import Format
from orchestrator.cli.options import (
    ChunkArgument,
    JobArgument,
    OutputOption,
    YesOption,
    limit_option,
)
from orchestrator.cli.run import run_connected

if TYPE_CHECKING:
    from orchestrator.cli.output import Output
    from piecework.runtime import Runtime

app = typer.Typer(help="Look at dead letters, and redrive them.", no_args_is_help=True)

JobOption = Annotated[
    str | None,
    typer.Option(
        "--job", metavar="JOB", help="Only this job's.", show_default="all jobs"
    ),
]
CodeOption = Annotated[
    str | None,
    typer.Option(
        metavar="CODE", help="Only this error code; `llm.*` for all that begin so."
    ),
]
StageOption = Annotated[
    str | None, typer.Option(metavar="STAGE", help="Only those that died there.")
]


@app.command("list")
def list_letters(
    job: JobOption = None,
    code: CodeOption = None,
    stage: StageOption = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="SPAN", help="Only those that died since: 30m, 1h, 2d."),
    ] = None,
    limit: Annotated[int, limit_option("Letters")] = 50,
    every: Annotated[
        bool, typer.Option("--all", help="Those that were redriven, too.")
    ] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """List dead letters, the newest first."""

    async def act(rt: Runtime, out: Output) -> None:
        from orchestrator.cli.letter_views import letter_columns, letter_line
        from orchestrator.cli.letters import Filter, select
        from orchestrator.cli.times import parse_span

        after = rt.clock() - parse_span(since) if since else None
        wanted = Filter(job, code, stage, after, redriven=every)
        found = await select(rt, wanted)
        shown = found[:limit] if limit else found
        lines = [letter_line(letter) for letter in shown]
        out.rows(lines, letter_columns(rt.clock(), all_=every), "no dead letters")
        if out.table and found:
            if len(shown) < len(found):
                out.say(f"the newest {limit} of {len(found)}; --limit 0 lists all")
            one = shown[0]
            out.say(f"next: piecework dlq show {one['job']} {lines[0]['chunk']}")

    run_connected(act, output)


@app.command("show")
def show_letter(
    job: JobArgument, chunk: ChunkArgument, output: OutputOption = Format.TABLE
) -> None:
    """Tell the whole story of a dead chunk, its payload included."""

    async def act(rt: Runtime, out: Output) -> None:
        from orchestrator.cli.letter_views import letter_view
        from orchestrator.cli.letters import story
        from orchestrator.cli.lists import chunk_number
        from orchestrator.inspector import require_job

        record = await require_job(rt, job)
        document = await story(rt, record.ref.chunk(chunk_number(chunk)))
        out.document(document, letter_view(document, rt.clock()))

    run_connected(act, output)


@app.command("redrive")
def redrive_letters(  # noqa: PLR0913, PLR0917 -- filters and safeguards, each wanted alone
    job: JobOption = None,
    code: CodeOption = None,
    stage: StageOption = None,
    chunk: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="Only this chunk; may be repeated."),
    ] = None,
    limit: Annotated[int, limit_option("Letters")] = 0,
    reason: Annotated[
        str,
        typer.Option(metavar="TEXT", help="What was fixed; it stands in the record."),
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show exactly what would be redriven.")
    ] = False,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Hand dead chunks out again, after what killed them was fixed."""

    async def act(rt: Runtime, out: Output) -> None:
        from orchestrator.cli import redriving
        from orchestrator.cli.letters import Filter

        wanted = Filter(job, code, stage, chunks=frozenset(chunk or ()))
        plan = await redriving.plan(rt, wanted, limit)
        if dry_run:
            redriving.show(rt, out, plan)
            return
        await redriving.check(plan, out, reason, yes=yes)
        await redriving.carry_out(rt, out, plan, reason)

    run_connected(act, output)
