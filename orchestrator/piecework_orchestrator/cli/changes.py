"""`jobs accept-changes`: let newer code go on with the chunks that it has stopped."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from piecework_orchestrator.cli.options import (
    Format,
    JobArgument,
    OutputOption,
    ReasonOption,
    YesOption,
)
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.run import confirm, run_client
from piecework_orchestrator.cli.views.acts import act_columns
from piecework_orchestrator.cli.views.jobs import show_facts, stop_lines
from piecework_orchestrator.client import Client
from piecework_orchestrator.operate.changes import (
    require_reason,
    require_version,
    unreported,
)
from piecework_orchestrator.reading.job_documents import require_job
from piecework_orchestrator.reading.times import count

NONE_STOPPED = "newer code has stopped no chunk"


def accept_changes(
    job: JobArgument,
    reason: ReasonOption = "",
    code_version: Annotated[
        str,
        typer.Option(
            metavar="VERSION",
            help="Only workers of this code version go on.",
            show_default="each version",
        ),
    ] = "",
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Show what that does to each act of earlier claims; change nothing.",
        ),
    ] = False,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Let newer code go on with the chunks that it has stopped.

    A chunk stops with `runtime.code.changed` before newer code repeats or leaves what
    earlier claims did. After this command it goes on, and an act may happen twice: the
    preview says which. To avoid that, run the version before again: the chunks wait for
    it, and spend no attempt. A chunk that is a dead letter needs a redrive.
    """

    async def run(client: Client, out: Output) -> None:
        handle = client.job(job)
        found = await handle.changes()
        if dry_run:
            show_preview(out, found, "would")
            return
        if out.table and (found["waiting"] or found["dead"]):
            show_preview(out, found, "will")
        record = await require_job(handle.rt, job)
        if warning := await unreported(handle.rt, record, code_version):
            out.say(f"warning: {warning}")
        chunks = count(found["waiting"] + found["dead"], "stopped chunk")
        await confirm(f"Let newer code go on with {chunks} of {job}", out, yes=yes)
        show_facts(out, await handle.accept_changes(reason, code_version))
        if out.table and found["dead"]:
            redrive = f"piecework dlq redrive --job {job} --reason WHY"
            out.say(f"next: {redrive} --code runtime.code.changed")

    def check() -> None:
        require_version(code_version)
        if not dry_run:
            require_reason(reason)

    run_client(run, output, before=check)


def show_preview(out: Output, found: dict[str, Any], mood: str) -> None:
    """Show what an acceptance does to each kind of act; `mood`: will or would."""
    if not out.table:
        out.document(found, lambda _: None)
        return
    stopped = found["waiting"] + found["dead"]
    none = "no act of an earlier claim is on record" if stopped else NONE_STOPPED
    columns = act_columns("IF ACCEPTED", "accepted")
    out.rows(found["kinds"], columns, none)
    if not stopped:
        return
    if found["first"] is not None:
        out.say("\n".join(stop_lines(found["first"])))
    if not found["exact"]:
        out.say("only the first stopped chunks were read")
    waiting, dead = count(found["waiting"], "chunk"), count(found["dead"], "chunk")
    out.say(f"{waiting} {mood} go on; {dead} {mood} need a redrive")
