"""Start a job and, with `--wait`, wait until it has ended."""

from __future__ import annotations

import asyncio
import getpass
import secrets
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

from orchestrator.cli.job_views import next_command
from orchestrator.cli.output import Output, facts
from orchestrator.cli.submit_bar import show_submit
from orchestrator.cli.times import parse_deadline, parse_limit
from orchestrator.cli.waited import wait_for
from orchestrator.inspector import job_facts
from orchestrator.intake import ChunkInput, chunk_inputs
from orchestrator.intake.names import printable_name
from orchestrator.submit import Submission, submit
from piecework.errors import StoreError, UsageError
from piecework.keys import is_name
from piecework.model import Job, JobRef
from piecework.pipeline import Pipeline
from piecework.runtime import Runtime

#: Letters and digits that are not easily confused with others.
ALPHABET = "23456789abcdefghjkmnpqrstvwxyz"


@dataclass(frozen=True, slots=True)
class SubmitRequest:
    """The arguments of `submit`."""

    name: str
    pipeline: Pipeline
    source: str
    job_id: str
    deadline: str = ""

    @property
    def module(self) -> str:
        """The module of the pipeline, for the `--pipelines` option of a worker."""
        return self.name.partition(":")[0]


def check_options(job_id: str, *, wait: bool, timeout: str) -> float | None:
    """Refuse arguments that do not fit together; return the timeout in seconds.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    if job_id and not is_name(job_id):
        message = f"{job_id!r} is not a valid job id."
        step = "Use up to 64 letters, digits, `-` and `_`."
        raise UsageError(message, next_step=step)
    if timeout and not wait:
        message = "--timeout is valid only with --wait."
        raise UsageError(message, next_step="Add --wait.")
    return parse_limit(timeout)


async def start_job(
    rt: Runtime,
    out: Output,
    request: SubmitRequest,
    *,
    wait: bool,
    limit_s: float | None,
) -> int:
    """Submit; return the exit code."""
    deadline = read_deadline(request.deadline, rt.clock())
    job_id = request.job_id or new_job_id(rt.clock())
    ref = JobRef(rt.settings.tenant, job_id)
    source = (
        "standard input" if request.source == "-" else printable_name(request.source)
    )
    submission = Submission(ref, request.pipeline, source, whoami(), deadline)
    chunks = chunk_inputs(request.source, request.pipeline, s3=rt.objects.client)
    job, new = await submit_with_progress(rt, out, submission, chunks)
    if wait:
        if not new:
            out.say(f"job {ref.job} exists with the same content")
        return await wait_for(rt, out, ref.job, module=request.module, limit_s=limit_s)
    job = await rt.jobs.read(ref) or job
    show_job(out, job, new=new)
    return 0


async def submit_with_progress(
    rt: Runtime,
    out: Output,
    submission: Submission,
    chunks: AsyncIterator[ChunkInput],
) -> tuple[Job, bool]:
    """Submit and show the progress; if interrupted, name the next command."""
    steps: dict[str, int] = {}
    job = submission.ref.job
    try:
        with show_submit(out) as progress:

            def report(step: str, done: int) -> None:
                steps[step] = done
                if done:
                    progress(step, done)

            return await submit(rt, submission, chunks, report)
    except (asyncio.CancelledError, StoreError):
        if steps.keys() - {"read"}:  # only then the job may exist
            sure = any(done for step, done in steps.items() if step != "read")
            was = "was created;" if sure else "may have been created; if so,"
            out.say(
                f"job {job} {was} a reconciler will finish its submit; "
                f"next: piecework jobs watch {job}"
            )
        raise


def show_job(out: Output, job: Job, *, new: bool | None = None) -> None:
    """Write a job as it is now; `new` is whether this submit created it."""
    document = job_facts(job) | ({} if new is None else {"new": new})
    shown = facts(
        [
            ("job", job.ref.job),
            (
                "status",
                f"{job.status}"
                + ("  (it exists with the same content)" if new is False else ""),
            ),
            ("chunks", job.chunks),
            ("deadline", job.item.get("deadline_at")),
        ]
    )
    out.document(document, lambda console: console.print(shown))
    out.say(f"next: {next_command(document)}")


def read_deadline(text: str, now: float) -> float | None:
    """Return the deadline in epoch seconds; None: none was given.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    return parse_deadline(text, now) if text else None


def new_job_id(now: float) -> str:
    """Return a unique id that sorts by time."""
    token = "".join(secrets.choice(ALPHABET) for _ in range(5))
    return f"{datetime.fromtimestamp(now, UTC):%y%m%d-%H%M%S}-{token}"


def whoami() -> str:
    """Return user and host of the operator, for the record."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # the user of a container may have no name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
