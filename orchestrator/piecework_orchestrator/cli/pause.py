"""`jobs pause`, `resume`, `set-budget`, `set-priority` and `unpin`."""

from __future__ import annotations

from typing import Annotated

import typer

from piecework.domain.pause import PauseCode
from piecework.domain.priority import parse_priority
from piecework_orchestrator.cli.options import (
    BudgetTokensOption,
    BudgetUsdOption,
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
from piecework_orchestrator.client.arguments import require_cap
from piecework_orchestrator.reading.job_documents import pause_command


def pause_job(
    job: JobArgument, reason: ReasonOption = "", output: OutputOption = Format.TABLE
) -> None:
    """Pause a job: no further call starts.

    Calls in flight finish and are remembered; their chunks wait at a checkpoint, and
    spend no attempt. A chunk that compensates goes on. The deadline goes on, too.
    `jobs resume` ends the pause.
    """

    async def run(client: Client, out: Output) -> None:
        show_facts(out, await client.job(job).pause(reason))

    run_client(run, output)


def resume_job(
    job: JobArgument, reason: ReasonOption = "", output: OutputOption = Format.TABLE
) -> None:
    """Resume a PAUSED job.

    Its open chunks continue from their checkpoints. For a job that has ended use
    `jobs retry`.
    """

    async def run(client: Client, out: Output) -> None:
        handle = client.job(job)
        facts = await handle.facts()
        with show_steps(out, facts.chunks) as progress:
            resumed = await handle.resume(reason, on_progress=progress)
        show_facts(out, resumed)
        pause = facts.document.get("pause")
        if out.table and pause and pause["code"] == PauseCode.BUDGET:
            out.say("its budget is spent: it pauses again unless the budget is raised")
            out.say(f"next: {pause_command(facts.document)}")

    run_client(run, output)


def set_budget(
    job: JobArgument,
    budget_usd: BudgetUsdOption = "",
    budget_tokens: BudgetTokensOption = "",
    reason: ReasonOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Change what the calls of a job may spend, and resume it.

    A job that its budget has paused continues from its checkpoints. What is spent
    already counts.
    """

    async def run(client: Client, out: Output) -> None:
        handle = client.job(job)
        facts = await handle.facts()
        with show_steps(out, facts.chunks) as progress:
            changed = await handle.set_budget(
                budget_usd, budget_tokens, reason, on_progress=progress
            )
        show_facts(out, changed)

    run_client(run, output, before=lambda: require_cap(budget_usd, budget_tokens))


def set_priority(
    job: JobArgument,
    priority: Annotated[
        str, typer.Argument(metavar="high|normal|low", help="The new priority.")
    ],
    reason: ReasonOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Change the share of a job in the workers.

    Workers see it within seconds. Chunks that have a message already keep their place
    in the queue.
    """

    async def run(client: Client, out: Output) -> None:
        show_facts(out, await client.job(job).set_priority(priority, reason))

    run_client(run, output, before=lambda: parse_priority(priority))


def unpin(
    job: JobArgument, reason: ReasonOption = "", output: OutputOption = Format.TABLE
) -> None:
    """Let workers of any code version run a job that was submitted with `--pin`.

    The newest code goes on wherever that is safe for what a chunk has done.
    """

    async def run(client: Client, out: Output) -> None:
        show_facts(out, await client.job(job).unpin(reason))

    run_client(run, output)
