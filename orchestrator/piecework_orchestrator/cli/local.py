"""The commands of this machine: the demo, the embedded AWS, and the checks."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from piecework.aws.endpoint import find_endpoint
from piecework.errors import UsageError
from piecework.pipelines import queue_errors
from piecework.settings import load_settings
from piecework_orchestrator import doctor as checks
from piecework_orchestrator import embedded
from piecework_orchestrator.cli.global_options import USAGE
from piecework_orchestrator.cli.options import Format, OutputOption, YesOption
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.run import confirm_now, run_async, run_local
from piecework_orchestrator.cli.table import Column


def demo(
    seed: Annotated[int, typer.Option(help="The seed that decides every fault.")] = 42,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the embedded AWS running.")
    ] = False,
    calls: Annotated[
        int, typer.Option(min=23, max=230, help="Model calls for each clause.")
    ] = 23,
    out: Annotated[
        Path, typer.Option(help="The folder for the report.", file_okay=False)
    ] = Path("out"),
) -> None:
    """Run the demo: review a contract under faults.

    Everything runs on this machine, on the embedded AWS.
    """
    # Imported here: the other commands of this file do not load the demo.
    from piecework_orchestrator.demo.run import run_demo

    async def run(output: Output) -> int:
        return await run_demo(
            seed=seed, keep=keep, calls=calls, out=out, stream=output.stdout
        )

    run_async(run, Format.TABLE)


def up(
    port: Annotated[
        int, typer.Option(help="The port; 0 chooses a free one.", min=0, max=65535)
    ] = 0,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A queue that pipelines declare, up to three; repeatable.",
            show_default=False,
        ),
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Start the embedded AWS on this machine.

    One that runs keeps its port and its queues.
    """

    def run(out: Output) -> None:
        settings = load_settings()
        queues = [require_queue(name) for name in queue or ()]
        found = embedded.up(
            settings.app, settings.env, port=port, queues=queues, report=out.say
        )
        line = f"embedded AWS at {found.endpoint} (MiniStack {found.version})"
        out.document(asdict(found), lambda console: console.print(line))
        if out.table:
            out.say(f"next: {next_step()}")

    run_local(run, output)


def next_step() -> str:
    """Return what to do after `up`; an account may be named that commands refuse."""
    try:
        find_endpoint()
    except UsageError as error:
        return error.next_step
    return "piecework submit MODULE:PIPELINE FILE"


def require_queue(name: str) -> str:
    """Return the name of a queue that a pipeline may declare.

    Raises:
        UsageError: `config.queue.invalid`.
    """
    if queue_errors(name) or not name:
        message = f"{name!r} is not a queue that a pipeline can declare."
        raise UsageError(message, code="config.queue.invalid")
    return name


def down(yes: YesOption = False, output: OutputOption = Format.TABLE) -> None:
    """Stop the embedded AWS; its data is deleted.

    The command asks first if jobs have not ended.
    """

    def run(out: Output) -> None:
        running = embedded.find()
        embedded.refuse_beside_dev(running)
        if jobs := embedded.count_active_jobs(running) if running else 0:
            plural = "" if jobs == 1 else "s"
            confirm_now(f"delete {jobs} unfinished job{plural}", out, yes=yes)
        stopped = embedded.down()
        endpoint = stopped.endpoint if stopped else None
        line = f"stopped {endpoint}" if stopped else "no embedded AWS was running"
        out.document({"stopped": endpoint}, lambda console: console.print(line))

    run_local(run, output)


def doctor(
    queue: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Also check this queue of pipelines; repeatable.",
            show_default=False,
        ),
    ] = None,
    aws: Annotated[
        bool, typer.Option("--aws", help="Also read the quotas of the account.")
    ] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Check everything that a run needs.

    It finds the queues of running workers; --queue names others. --aws tells how many
    workers the account's vCPU of Fargate allow.

    The exit code is 2 if a check fails.
    """

    def run(out: Output) -> int:
        queues = [require_queue(name) for name in queue or ()]
        found = checks.run_checks(load_settings(), queues=queues, aws=aws)
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
