"""`jobs retry` and `jobs resume`: process the chunks without a result again."""

from __future__ import annotations

from piecework.client import Client
from piecework_orchestrator.cli.options import (
    DeadlineOption,
    Format,
    JobArgument,
    OutputOption,
    ReasonOption,
)
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.run import ByClient, run_client
from piecework_orchestrator.cli.views.jobs import show_facts


def retry_job(
    job: JobArgument,
    reason: ReasonOption = "",
    deadline: DeadlineOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Retry a job that ended PARTIAL or FAILED.

    Every chunk without a result is processed again from its checkpoint. Discarded
    chunks stay dead. A future deadline stays in force unless --deadline replaces it; a
    deadline that has passed is removed. For a cancelled job use `jobs resume`.
    """
    run_client(reopening(job, reason, deadline, command="retry"), output)


def resume_job(
    job: JobArgument,
    reason: ReasonOption = "",
    deadline: DeadlineOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Resume a CANCELLED job.

    Every chunk without a result continues from its checkpoint. Discarded chunks stay
    dead. A future deadline stays in force unless --deadline replaces it; a deadline
    that has passed is removed. For a job that ended PARTIAL or FAILED use `jobs retry`.
    """
    run_client(reopening(job, reason, deadline, command="resume"), output)


def reopening(job: str, reason: str, deadline: str, *, command: str) -> ByClient:
    """Return the action of `jobs retry` and of `jobs resume`."""

    async def run(client: Client, out: Output) -> None:
        handle = client.job(job)
        reopen = handle.retry if command == "retry" else handle.resume
        count = await reopen(reason, deadline or None)
        facts = await handle.facts()
        out.say(f"{count} chunks are reopened in generation {facts.gen}")
        show_facts(out, facts)

    return run
