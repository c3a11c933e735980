"""`dlq`: list, count, show and export dead letters; redrive or discard them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from piecework_orchestrator.cli.options import (
    ChunkArgument,
    Format,
    JobArgument,
    OutputOption,
    YesOption,
    limit_option,
)
from piecework_orchestrator.cli.run import run_connected

# `dlq discard` and `dlq redrive`: the commands that close dead letters.

if TYPE_CHECKING:
    from piecework.runtime import Runtime
    from piecework_orchestrator.cli.output import Output


def discard_letters(  # noqa: PLR0913, PLR0917 -- filters and safeguards, each wanted alone
    job: JobOption = None,
    code: CodeOption = None,
    fingerprint: FingerprintOption = None,
    stage: StageOption = None,
    since: SinceOption = None,
    chunk: ChunkOption = None,
    limit: LimitOption = 0,
    reason: ReasonOption = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Discard dead letters: their chunks stay dead.

    Later redrives and retries leave these chunks out.
    """

    async def run(rt: Runtime, out: Output) -> None:
        from piecework_orchestrator.cli import dlq_plan
        from piecework_orchestrator.cli.dlq_select import Filter

        wanted = Filter(job, code, fingerprint, stage, since, chunk)
        plan = await dlq_plan.make_plan(rt, wanted, limit)
        if dry_run:
            dlq_plan.show_plan(rt, out, plan, "discarded")
            return
        await dlq_plan.confirm_plan(plan, out, "Discard", reason, yes=yes)
        await dlq_plan.discard_plan(rt, out, plan, reason)

    run_connected(run, output)


def redrive_letters(  # noqa: PLR0913, PLR0917 -- filters and safeguards, each wanted alone
    job: JobOption = None,
    code: CodeOption = None,
    fingerprint: FingerprintOption = None,
    stage: StageOption = None,
    since: SinceOption = None,
    chunk: ChunkOption = None,
    limit: LimitOption = 0,
    reason: ReasonOption = "",
    dry_run: DryRunOption = False,
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help="Dispatch N chunks a second.",
            min=0.01,
            show_default="all at once",
        ),
    ] = None,
    edit: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Replace the payload of one dead letter by this JSON file.",
        ),
    ] = "",
    patch: Annotated[
        str,
        typer.Option(
            metavar="JSON", help="Apply this JSON merge patch to each payload."
        ),
    ] = "",
    pipeline: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Check new payloads against this `module:pipeline`."
        ),
    ] = "",
    canary: Annotated[
        int,
        typer.Option(
            metavar="K",
            help="Redrive K first, then twice as many, each wave after the jobs have "
            "ended; stop if a cause recurs (exit code 5).",
            min=0,
            show_default="all at once",
        ),
    ] = 0,
    timeout: Annotated[
        str,
        typer.Option(
            metavar="SPAN",
            help="With --canary: the longest wait (then exit code 7).",
            show_default="no limit",
        ),
    ] = "",
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Redrive dead letters after a fix.

    Their chunks are processed again, in a new generation of their job.
    """

    async def run(rt: Runtime, out: Output) -> int:
        from piecework_orchestrator.cli import dlq_plan, dlq_redrive
        from piecework_orchestrator.cli.dlq_select import Filter

        new = await dlq_redrive.make_edit(edit, patch, pipeline)
        options = dlq_redrive.read_options(reason, new, rate, canary, timeout)
        wanted = Filter(job, code, fingerprint, stage, since, chunk)
        plan = await dlq_plan.make_plan(rt, wanted, limit)
        payloads = await dlq_redrive.preview_payloads(rt, plan.letters, new)
        dlq_redrive.warn_of_edit(out, plan, payloads)
        if dry_run:
            dlq_redrive.show_redrive(rt, out, plan, payloads)
            return 0
        await dlq_plan.confirm_plan(plan, out, "Redrive", reason, yes=yes)
        return await dlq_redrive.redrive_plan(rt, out, plan, options)

    run_connected(run, output)


if TYPE_CHECKING:
    from piecework.runtime import Runtime
    from piecework_orchestrator.cli.output import Output

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
        from piecework_orchestrator.cli.dlq_select import Filter, select
        from piecework_orchestrator.cli.views.dead_letters import (
            letter_columns,
            letter_line,
        )

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
        from piecework_orchestrator.cli.options import parse_chunk
        from piecework_orchestrator.cli.views.dead_letters import (
            dead_letter_document,
            letter_view,
        )
        from piecework_orchestrator.inspector import require_job

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
        from piecework_orchestrator.cli.dlq_select import Filter, select
        from piecework_orchestrator.cli.views.dead_letters import (
            group_by_cause,
            group_columns,
        )

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
        from piecework_orchestrator.cli.dlq_select import Filter, select
        from piecework_orchestrator.cli.files import export

        wanted = Filter(job, code, fingerprint, stage, since, chunk, closed=every)
        found = await select(rt, wanted)
        await export(rt, out, found[:limit] if limit else found, to, payload=payload)

    run_connected(run, Format.JSONL)


app.command("discard")(discard_letters)
app.command("redrive")(redrive_letters)


# The options of `dlq` that select dead letters.

JobOption = Annotated[
    str | None,
    typer.Option(
        "--job", metavar="JOB", help="Only this job.", show_default="all jobs"
    ),
]
CodeOption = Annotated[
    str | None,
    typer.Option(
        metavar="CODE",
        help="Only this error code; `llm.*` for all that begin with `llm.`.",
    ),
]
FingerprintOption = Annotated[
    str | None,
    typer.Option(metavar="HEX", help="Only this cause, as `dlq stats` shows it."),
]
StageOption = Annotated[
    str | None,
    typer.Option(metavar="STAGE", help="Only chunks that died in this stage."),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        metavar="SPAN", help="Only chunks that died within this span: 30m, 1h, 2d."
    ),
]
ChunkOption = Annotated[
    list[int] | None,
    typer.Option(metavar="N", help="Only this chunk; repeatable."),
]
LimitOption = Annotated[int, limit_option("Dead letters")]
AllOption = Annotated[
    bool, typer.Option("--all", help="Include redriven and discarded dead letters.")
]
ReasonOption = Annotated[
    str,
    typer.Option("--reason", metavar="TEXT", help="The reason, kept in the record."),
]
DryRunOption = Annotated[
    bool,
    typer.Option("--dry-run", help="Show the selected dead letters, change nothing."),
]
