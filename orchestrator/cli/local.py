"""On this machine: the embedded AWS, the demo, other programs, the version."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.formats import Format
from orchestrator.cli.options import OutputOption
from orchestrator.cli.run import USAGE, run_async, run_local

if TYPE_CHECKING:
    from orchestrator.cli.output import Output


def demo(
    seed: Annotated[int, typer.Option(help="Decides every fault.")] = 42,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the embedded AWS running.")
    ] = False,
    out: Annotated[
        Path, typer.Option(help="Where the report goes.", file_okay=False)
    ] = Path("out"),
) -> None:
    """Review a contract under faults, on this machine."""

    async def act(output: Output) -> int:
        from orchestrator.demo import run_demo

        return await run_demo(seed=seed, keep=keep, out=out, stream=output.stdout)

    run_async(act, Format.TABLE)


def up(output: OutputOption = Format.TABLE) -> None:
    """Start the embedded AWS on this machine."""

    def act(out: Output) -> None:
        from dataclasses import asdict

        from orchestrator import embedded
        from piecework.settings import load_settings

        settings = load_settings()
        found = embedded.up(settings.app, settings.env, say=out.say)
        line = f"embedded AWS at {found.endpoint} (MiniStack {found.version})"
        out.document(asdict(found), lambda console: console.print(line))
        if out.table:
            out.say("next: piecework submit MODULE:PIPELINE FILE")

    run_local(act, output)


def down(output: OutputOption = Format.TABLE) -> None:
    """Stop the embedded AWS; it keeps nothing."""

    def act(out: Output) -> None:
        from orchestrator import embedded

        stopped = embedded.down()
        endpoint = stopped.endpoint if stopped else None
        line = f"stopped {endpoint}" if stopped else "no embedded AWS was running"
        out.document({"stopped": endpoint}, lambda console: console.print(line))

    run_local(act, output)


def doctor(output: OutputOption = Format.TABLE) -> None:
    """Look at everything that a run needs.

    The exit code is 2 when something is amiss.
    """

    def act(out: Output) -> int:
        from dataclasses import asdict

        from orchestrator.cli.output import Column
        from orchestrator.doctor import checks
        from piecework.settings import load_settings

        found = checks(load_settings())
        columns = [
            Column("", lambda check: "ok" if check["ok"] else "fails"),
            Column("CHECK", "name", shrinks=True),
            Column("SEEN", "detail", folds=True),
        ]
        if not all(check.ok for check in found):
            columns.append(Column("NEXT", "next_step", folds=True))
        out.rows([asdict(check) for check in found], columns, "nothing to check")
        return 0 if all(check.ok for check in found) else USAGE

    run_local(act, output)


def worker(context: typer.Context) -> None:
    """Run a worker: `piecework-worker` with these arguments."""
    # Workers are a program of their own, which this one does not import.
    os.execv(sys.executable, [sys.executable, "-m", "workers", *context.args])  # noqa: S606 -- no shell is the point


def simulate(context: typer.Context) -> None:
    """Run a pipeline through crashes, lost replies and doubled messages, in no time."""
    # The simulator stands above this program, which it runs as one of its processes.
    os.execv(sys.executable, [sys.executable, "-m", "simulation", *context.args])  # noqa: S606 -- no shell is the point


def version_asked(asked: bool) -> None:
    """Say which version this is, and end."""
    if asked:
        version(Format.TABLE)


def version(output: OutputOption = Format.TABLE) -> None:
    """Say which version this is."""

    def act(out: Output) -> None:
        from piecework.version import version_line, versions

        out.document(versions(), lambda console: console.print(version_line()))

    run_local(act, output)
