"""`reconcile`: put right what nobody else will."""

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
        typer.Option("--loop/--once", help="Go on until stopped, or look once."),
    ] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Put right what was left half done or lost.

    Harmless at any time: beside workers, and beside other reconcilers.
    """

    async def act(rt: Runtime, out: Output) -> None:
        import structlog

        from orchestrator.cli.output import Column
        from orchestrator.reconciling import reconcile_until_stopped
        from piecework.reconcile import reconcile_once
        from piecework.telemetry.measuring import measured

        log = structlog.get_logger().bind(reconciler="cli")
        if loop:
            async with measured(rt.settings, rt.clock):
                await reconcile_until_stopped(rt, log)
            return
        if out.table:
            out.say(
                "looking; a chunk in hand is watched for "
                f"{rt.settings.lease_s:g} s, to tell a live worker from a dead one"
            )
        acts = await reconcile_once(rt, log)
        rows = [{"action": action, "count": n} for action, n in sorted(acts.items())]
        columns = [Column("COUNT", "count", right=True), Column("ACTION", "action")]
        out.rows(rows, columns, "nothing to put right")

    run_connected(act, output)
