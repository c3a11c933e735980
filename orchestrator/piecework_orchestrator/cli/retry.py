"""`jobs retry`: process the chunks without a result again."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from piecework.domain.refs import ChunkRef
from piecework_orchestrator.cli.dlq import tell_unreadable
from piecework_orchestrator.cli.options import (
    DeadlineOption,
    Format,
    JobArgument,
    OutputOption,
    ReasonOption,
)
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.progress import show_steps
from piecework_orchestrator.cli.run import run_client
from piecework_orchestrator.cli.views.jobs import show_facts
from piecework_orchestrator.client import Client
from piecework_orchestrator.reading.times import count, parse_deadline


def retry_job(
    job: JobArgument,
    reason: ReasonOption = "",
    deadline: DeadlineOption = "",
    yes: Annotated[
        bool, typer.Option("--yes", help="For scripts: a retry never asks.")
    ] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Retry a job that ended PARTIAL, FAILED or CANCELLED.

    A SUCCEEDED job can be retried, too, if it tolerated failures. Every chunk without a
    result is processed again from its checkpoint. Discarded chunks stay dead. A future
    deadline stays in force unless --deadline replaces it; a deadline that has passed is
    removed. If the command is interrupted, repeat it with the same reason. A chunk
    whose dead letter cannot be read stays dead: the exit code is 5.
    """
    del yes  # operators type it, as after a redrive

    def check() -> None:
        if deadline:
            parse_deadline(deadline, time.time())

    async def run(client: Client, out: Output) -> int:
        handle, damaged = client.job(job), list[ChunkRef]()
        with show_steps(out) as progress:
            reopened = await handle.retry(
                reason, deadline or None, unreadable=damaged, on_progress=progress
            )
        facts = await handle.facts()
        again = (
            f"{count(reopened, 'chunk')} reopened" if reopened else "the job ends again"
        )
        out.say(f"{again} in generation {facts.gen}")
        show_facts(out, facts)
        return tell_unreadable(out, damaged)

    run_client(run, output, before=check)
