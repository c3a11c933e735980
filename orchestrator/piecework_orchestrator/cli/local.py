"""Commands of this machine: embedded AWS, demo, doctor, other programs, version."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from piecework_orchestrator.cli.options import Format, OutputOption
from piecework_orchestrator.cli.run import USAGE, run_async, run_connected, run_local

if TYPE_CHECKING:
    from piecework_orchestrator.cli.output import Output


def demo(
    seed: Annotated[int, typer.Option(help="The seed that decides every fault.")] = 42,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the embedded AWS running.")
    ] = False,
    out: Annotated[
        Path, typer.Option(help="The folder for the report.", file_okay=False)
    ] = Path("out"),
) -> None:
    """Run the demo: review a contract under faults.

    Everything runs on this machine, on the embedded AWS.
    """

    async def run(output: Output) -> int:
        from piecework_orchestrator.demo.run import run_demo

        return await run_demo(seed=seed, keep=keep, out=out, stream=output.stdout)

    run_async(run, Format.TABLE)


def up(output: OutputOption = Format.TABLE) -> None:
    """Start the embedded AWS on this machine."""

    def run(out: Output) -> None:
        from dataclasses import asdict

        from piecework.settings import load_settings
        from piecework_orchestrator import embedded

        settings = load_settings()
        found = embedded.up(settings.app, settings.env, report=out.say)
        line = f"embedded AWS at {found.endpoint} (MiniStack {found.version})"
        out.document(asdict(found), lambda console: console.print(line))
        if out.table:
            out.say("next: piecework submit MODULE:PIPELINE FILE")

    run_local(run, output)


def down(output: OutputOption = Format.TABLE) -> None:
    """Stop the embedded AWS; its data is deleted."""

    def run(out: Output) -> None:
        from piecework_orchestrator import embedded

        stopped = embedded.down()
        endpoint = stopped.endpoint if stopped else None
        line = f"stopped {endpoint}" if stopped else "no embedded AWS was running"
        out.document({"stopped": endpoint}, lambda console: console.print(line))

    run_local(run, output)


def doctor(output: OutputOption = Format.TABLE) -> None:
    """Check everything that a run needs.

    The exit code is 2 if a check fails.
    """

    def run(out: Output) -> int:
        from dataclasses import asdict

        from piecework.settings import load_settings
        from piecework_orchestrator.cli.output import Column
        from piecework_orchestrator.doctor import run_checks

        found = run_checks(load_settings())
        columns = [
            Column("", lambda check: "ok" if check["ok"] else "fails"),
            Column("CHECK", "name", shrinks=True),
            Column("DETAIL", "detail", folds=True),
        ]
        if not all(check.ok for check in found):
            columns.append(Column("NEXT", "next_step", folds=True))
        out.rows([asdict(check) for check in found], columns, "no check ran")
        return 0 if all(check.ok for check in found) else USAGE

    run_local(run, output)


def worker(context: typer.Context) -> None:
    """Run a worker: `piecework-worker` with these arguments."""
    # Workers are a separate program, which the command line does not import.
    os.execv(sys.executable, [sys.executable, "-m", "piecework_worker", *context.args])  # noqa: S606 -- no shell is the point


def simulate(context: typer.Context) -> None:
    """Simulate a pipeline under injected faults.

    The faults are crashes, lost replies and duplicate messages; time is simulated.
    """
    # The simulator imports this package, so this package cannot import the simulator.
    command = [sys.executable, "-m", "piecework_simulation", *context.args]
    os.execv(sys.executable, command)  # noqa: S606 -- no shell is the point


def print_version(requested: bool) -> None:
    """Print the version and exit, if `--version` was given."""

    def run(out: Output) -> None:
        from piecework.loading import version_line, versions

        out.document(versions(), lambda console: console.print(version_line()))

    if requested:
        run_local(run, Format.TABLE)


# `reconcile`: finish or restart work that was interrupted or lost.

if TYPE_CHECKING:
    from piecework.runtime import Runtime
    from piecework_orchestrator.cli.output import Output


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

        from piecework.reconciler.loop import reconcile_once
        from piecework.telemetry.emf import write_metrics
        from piecework_orchestrator.cli.output import Column
        from piecework_orchestrator.reconcile import reconcile_until_stopped

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
