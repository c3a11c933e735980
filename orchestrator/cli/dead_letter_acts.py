"""`dlq discard` and `dlq redrive`: what closes dead letters."""

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
    SinceOption,
    StageOption,
    WhyOption,
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
    reason: WhyOption = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Give dead letters up: their chunks stay dead, and nobody is asked again."""

    async def act(rt: Runtime, out: Output) -> None:
        from orchestrator.cli import discarding, selecting
        from orchestrator.cli.letters import Filter

        wanted = Filter(job, code, fingerprint, stage, since, chunk)
        plan = await selecting.plan(rt, wanted, limit)
        if dry_run:
            selecting.show(rt, out, plan, "discarded")
            return
        await selecting.check(plan, out, "Discard", reason, yes=yes)
        await discarding.carry_out(rt, out, plan, reason)

    run_connected(act, output)


def redrive_letters(  # noqa: PLR0913, PLR0917 -- filters and safeguards, each wanted alone
    job: JobOption = None,
    code: CodeOption = None,
    fingerprint: FingerprintOption = None,
    stage: StageOption = None,
    since: SinceOption = None,
    chunk: ChunkOption = None,
    limit: LimitOption = 0,
    reason: WhyOption = "",
    dry_run: DryRunOption = False,
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help="Hand out so many chunks a second.",
            min=0.01,
            show_default="all at once",
        ),
    ] = None,
    edit: Annotated[
        str,
        typer.Option(metavar="FILE", help="The new payload, as JSON, of one letter."),
    ] = "",
    patch: Annotated[
        str,
        typer.Option(metavar="JSON", help="A merge patch for the payload of each."),
    ] = "",
    pipeline: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="`module:pipeline` that new payloads have to fit."
        ),
    ] = "",
    canary: Annotated[
        int,
        typer.Option(
            metavar="K",
            help="First K, then ever more, each time after the job's end; stops when "
            "a cause returns (exit code 5).",
            min=0,
            show_default="all at once",
        ),
    ] = 0,
    timeout: Annotated[
        str,
        typer.Option(
            metavar="SPAN",
            help="With --canary: how long to wait (exit code 7).",
            show_default="no limit",
        ),
    ] = "",
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Hand dead chunks out again, after what killed them was fixed."""

    async def act(rt: Runtime, out: Output) -> int:
        from orchestrator.cli import editing, redriving, selecting
        from orchestrator.cli.letters import Filter

        new = await editing.make_edit(edit, patch, pipeline)
        how = redriving.read_how(reason, new, rate, canary, timeout)
        wanted = Filter(job, code, fingerprint, stage, since, chunk)
        plan = await selecting.plan(rt, wanted, limit)
        payloads = await editing.new_payloads(rt, plan.letters, new)
        redriving.warn(out, plan, payloads)
        if dry_run:
            redriving.show(rt, out, plan, payloads)
            return 0
        await selecting.check(plan, out, "Redrive", reason, yes=yes)
        return await redriving.carry_out(rt, out, plan, how)

    run_connected(act, output)
