"""`piecework push`: bring what is left of a run of this machine into a deployment."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from piecework.runtime import Runtime
from piecework_orchestrator.cli.app import run_alone
from piecework_orchestrator.cli.global_options import CONTEXT, command_class
from piecework_orchestrator.cli.options import Format, OutputOption
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.run import run_connected
from piecework_simulation.state.__main__ import reading
from piecework_simulation.state.pushing import push as push_file

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)


@app.command(cls=command_class("push"), context_settings=CONTEXT)
def push(
    state: Annotated[
        Path,
        typer.Option(
            "--state",
            metavar="FILE",
            help="The state file of `piecework run`.",
            dir_okay=False,
            show_default=False,
        ),
    ],
    output: OutputOption = Format.TABLE,
) -> None:
    """Push what is left of a run to the deployment as a job.

    The job keeps its id, its results, its stored calls and its effects: nothing is paid
    again. The settings name the deployment. From the first step on the run cannot go on
    here. If the push is interrupted, the same line goes on. A run that is not safe to
    push, as an effect is in doubt, stays as it is.
    """

    async def run(rt: Runtime, out: Output) -> None:
        with reading(state.absolute()) as file:
            found = await push_file(file, rt, out.say)
        left = found.chunks - found.done
        line = f"pushed job {found.job}: {found.done:,} done, {left:,} left"
        out.document(asdict(found), lambda console: console.print(line))
        if out.table:
            out.say(f"next: piecework jobs watch {found.job}")

    run_connected(run, output)


if __name__ == "__main__":
    run_alone(app, "piecework push")
