"""`reconcile`: finish or restart work that was interrupted or lost."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from piecework.reconciler.loop import reconcile_for_ever, reconcile_once
from piecework.runtime import Runtime
from piecework.telemetry.emit import quiet_log
from piecework.telemetry.health import Liveness, write_health_file
from piecework.telemetry.prometheus import publish_metrics
from piecework_orchestrator.cli.options import Format, OutputOption
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.run import run_connected
from piecework_orchestrator.cli.table import Column

if TYPE_CHECKING:
    import structlog


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
        log = quiet_log().bind(reconciler="cli")
        if loop:
            async with publish_metrics(rt.settings, rt.clock, stream=out.stdout):
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


async def reconcile_until_stopped(
    rt: Runtime, log: structlog.stdlib.BoundLogger
) -> None:
    """Reconcile until SIGTERM or SIGHUP, which may interrupt any write without harm."""
    stop, liveness, settings = asyncio.Event(), Liveness(), rt.settings
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    tasks = [
        asyncio.create_task(reconcile_for_ever(rt, log, liveness=liveness)),
        asyncio.create_task(
            write_health_file(liveness, settings.health_file, settings.lease_s, log)
        ),
    ]
    try:
        await stop.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
