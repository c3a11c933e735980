"""`dlq discard` and `dlq redrive`: the commands that close dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.formats import Format
from orchestrator.cli.letter_options import (
    ChunkOption,
    CodeOption,
    DryRunOption,
    FingerprintOption,
    JobOption,
    LimitOption,
    ReasonOption,
    SinceOption,
    StageOption,
)
from orchestrator.cli.options import OutputOption, YesOption
from orchestrator.cli.run import run_connected

if TYPE_CHECKING:
    from orchestrator.cli.output import Output
    from piecework.runtime import Runtime


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
        from orchestrator.cli import discarding, selecting
        from orchestrator.cli.letters import Filter

        wanted = Filter(job, code, fingerprint, stage, since, chunk)
        plan = await selecting.make_plan(rt, wanted, limit)
        if dry_run:
            selecting.show_plan(rt, out, plan, "discarded")
            return
        await selecting.confirm_plan(plan, out, "Discard", reason, yes=yes)
        await discarding.discard_plan(rt, out, plan, reason)

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
        from orchestrator.cli import editing, redriving, selecting
        from orchestrator.cli.letters import Filter

        new = await editing.make_edit(edit, patch, pipeline)
        options = redriving.read_options(reason, new, rate, canary, timeout)
        wanted = Filter(job, code, fingerprint, stage, since, chunk)
        plan = await selecting.make_plan(rt, wanted, limit)
        payloads = await editing.preview_payloads(rt, plan.letters, new)
        redriving.warn_of_edit(out, plan, payloads)
        if dry_run:
            redriving.show_redrive(rt, out, plan, payloads)
            return 0
        await selecting.confirm_plan(plan, out, "Redrive", reason, yes=yes)
        return await redriving.redrive_plan(rt, out, plan, options)

    run_connected(run, output)
