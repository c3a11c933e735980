"""Wait for a job, show it when it has ended, and return its exit code."""

from __future__ import annotations

import asyncio

from orchestrator.cli.bars import show_progress
from orchestrator.cli.job_views import job_view
from orchestrator.cli.output import Output
from orchestrator.inspector import Document, job_document
from orchestrator.waiting import watch
from piecework.model import JobStatus
from piecework.runtime import Runtime

OK, FAILED, CANCELLED, DEAD_LETTERS_LEFT = 0, 1, 4, 5


async def wait_for(
    rt: Runtime, out: Output, job: str, *, module: str, limit_s: float | None
) -> int:
    """Watch a job until it ends, and show it; return the exit code.

    Raises:
        WaitTimeoutError: `cli.wait.timeout`.
    """
    hint = (
        "no worker seems to be running; start one with "
        f"`piecework-worker --pipelines {module}`"
    )
    try:
        with show_progress(out, hint) as watcher:
            ended = await watch(rt, job, watcher, limit_s)
    except asyncio.CancelledError:
        out.say(f"the job continues; next: piecework jobs watch {job}")
        raise
    document = await job_document(rt, ended)
    out.document(document, job_view(document, rt.clock()))
    return exit_code(document)


def exit_code(job: Document) -> int:
    """Return the exit code for the status of an ended job."""
    match job["status"]:
        case JobStatus.SUCCEEDED:
            return OK
        case JobStatus.CANCELLED:
            return CANCELLED
        case JobStatus.PARTIAL if job["dead_letters"]:
            return DEAD_LETTERS_LEFT
        case _:
            return FAILED
