"""`reconcile`: finish or restart work that was interrupted or lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.formats import Format
from orchestrator.cli.options import OutputOption
from orchestrator.cli.run import run_connected

if TYPE_CHECKING:
    from orchestrator.cli.output import Output
    from piecework.runtime import Runtime


def reconcile(
    loop: Annotated[
        bool,
        typer.Option("--loop/--once", help="Run until stopped, or make one pass."),
    ] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Finish interrupted work, and send lost messages again.

    Safe at any time, also while workers and other reconcilers run.
    """

    async def run(rt: Runtime, out: Output) -> None:
        import structlog

        from orchestrator.cli.output import Column
        from orchestrator.reconciling import reconcile_until_stopped
        from piecework.reconcile import reconcile_once
        from piecework.telemetry.measuring import write_metrics

        log = structlog.get_logger().bind(reconciler="cli")
        if loop:
            async with write_metrics(rt.settings, rt.clock):
                await reconcile_until_stopped(rt, log)
            return
        if out.table:
            out.say(
                "one pass; each running chunk is observed for "
                f"{rt.settings.lease_s:g} s to find out whether its worker is alive"
            )
        acts = await reconcile_once(rt, log)
        rows = [{"action": action, "count": n} for action, n in sorted(acts.items())]
        columns = [Column("COUNT", "count", right=True), Column("ACTION", "action")]
        out.rows(rows, columns, "nothing to reconcile")

    run_connected(run, output)
