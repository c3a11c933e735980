"""`jobs retry` and `jobs resume`: process the chunks without a result again."""

from __future__ import annotations

from piecework.runtime import Runtime
from piecework_orchestrator.cli.options import (
    DeadlineOption,
    Format,
    JobArgument,
    OutputOption,
    ReasonOption,
)
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.run import Connected, run_connected
from piecework_orchestrator.cli.views.jobs import show_job
from piecework_orchestrator.identity import whoami
from piecework_orchestrator.inspector import require_job
from piecework_orchestrator.resume import ResumeRequest, require_verb, resume
from piecework_orchestrator.times import read_deadline


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
    run_connected(reopening(job, reason, deadline, command="retry"), output)


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
    run_connected(reopening(job, reason, deadline, command="resume"), output)


def reopening(job: str, reason: str, deadline: str, *, command: str) -> Connected:
    """Return the action of `jobs retry` and of `jobs resume`."""

    async def run(rt: Runtime, out: Output) -> None:
        record = await require_job(rt, job)
        require_verb(record, command)
        until = read_deadline(deadline, rt.clock())
        count, gen = await resume(
            rt, ResumeRequest(record.ref, whoami(), reason, until)
        )
        out.say(f"{count} chunks are reopened in generation {gen}")
        show_job(out, await require_job(rt, job), rt.clock())

    return run
