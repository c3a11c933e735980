"""`submit`: split the input into chunks and start a job, or estimate it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from piecework.domain.keys import is_name
from piecework.domain.model import Job, JobRef
from piecework.errors import StoreError, UsageError
from piecework.loading import load_pipeline
from piecework.pipelines import Pipeline, lint_stage_order
from piecework.runtime import Runtime
from piecework.settings import load_settings
from piecework_orchestrator.cli.options import (
    DeadlineOption,
    Format,
    OutputOption,
    TimeoutOption,
)
from piecework_orchestrator.cli.output import Output, facts
from piecework_orchestrator.cli.progress import show_steps, wait_for
from piecework_orchestrator.cli.run import connection, run_async
from piecework_orchestrator.cli.views.jobs import show_job
from piecework_orchestrator.identity import new_job_id, whoami
from piecework_orchestrator.intake.chunk import ChunkInput
from piecework_orchestrator.intake.limits import printable_name
from piecework_orchestrator.intake.manifest import SCHEME
from piecework_orchestrator.intake.source import chunk_inputs
from piecework_orchestrator.submit import Submission
from piecework_orchestrator.submit import submit as submit_job
from piecework_orchestrator.times import parse_limit, read_deadline

FIRST_LABELS = 5


def submit(
    pipeline: Annotated[
        str,
        typer.Argument(
            help="`package.module:pipeline`, or a module that defines one pipeline."
        ),
    ],
    source: Annotated[
        str,
        typer.Argument(
            help="A document, a directory, a .jsonl, .csv or .parquet file, `-`, or "
            "s3://bucket/key."
        ),
    ],
    job_id: Annotated[
        str,
        typer.Option(
            "--job-id",
            metavar="ID",
            help="The job id; repeated submits of one id create one job.",
            show_default="a new one",
        ),
    ] = "",
    deadline: DeadlineOption = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the job has ended.")
    ] = False,
    timeout: TimeoutOption = "",
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Read and split the input, create nothing."),
    ] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Submit a document to a pipeline as a job."""

    async def run(out: Output) -> int | None:
        limit_s = check_options(job_id, wait=wait, timeout=timeout)
        found = load_pipeline(pipeline)
        if dry_run:
            await show_estimate(out, found, source)
            return None
        request = SubmitRequest(pipeline, found, source, job_id, deadline)
        async with connection(out) as rt:
            return await start_job(rt, out, request, wait=wait, limit_s=limit_s)

    run_async(run, output)


async def show_estimate(out: Output, pipeline: Pipeline, source: str) -> None:
    """Write the chunks, calls and limits that a submit would have."""
    if source.startswith(SCHEME):
        async with connection(out) as rt:
            document = await estimate(pipeline, source, rt.objects.client)
    else:
        document = await estimate(pipeline, source, None)

    def draw(console: Any) -> None:
        calls = document["calls"]
        labels = document["first_labels"]
        more = document["chunks"] - len(labels)
        shown = [*labels, *([f"… and {more} more"] if more else [])]
        console.print(
            facts(
                [
                    ("pipeline", document["pipeline"]),
                    ("source", source),
                    ("chunks", document["chunks"]),
                    ("calls", "unknown" if calls is None else f"about {calls}"),
                    ("payload", f"{document['payload_bytes']:,} bytes"),
                    ("stages", "\n".join(map(stage_limit, document["stages"]))),
                    ("advice", "\n".join(document["advice"])),
                    ("claim", claim_limits(document["limits"])),
                    ("labels", "\n".join(shown)),
                ]
            )
        )

    out.document(document, draw)
    if out.table:
        out.say("no job was created; next: repeat the command without --dry-run")


def stage_limit(stage: dict[str, Any]) -> str:
    """Return a stage and its timeout as text."""
    limit = stage["timeout_s"]
    text = "as long as a claim" if limit is None else f"{limit:g} s at most"
    return f"{stage['stage']}: {text}"


def claim_limits(found: dict[str, Any]) -> str:
    """Return the limits of a claim as text."""
    return (
        f"{found['max_runtime_s']:g} s at most, "
        f"{found['stall_timeout_s']:g} s without a completed call or stage"
    )


async def estimate(pipeline: Pipeline, source: str, s3: Any) -> dict[str, Any]:
    """Split the whole source, and return the counts and the first labels."""
    labels: list[str] = []
    chunks = size = 0
    async for chunk in chunk_inputs(source, pipeline, s3=s3):
        chunks += 1
        size += len(chunk.payload)
        if len(labels) < FIRST_LABELS:
            labels.append(chunk.label)
    each = pipeline.calls_per_chunk
    limits = load_settings()
    return {
        "pipeline": pipeline.name,
        "source": source,
        "chunks": chunks,
        "calls": None if each is None else each * chunks,
        "payload_bytes": size,
        "first_labels": labels,
        "stages": [
            {"stage": stage.name, "timeout_s": stage.timeout}
            for stage in pipeline.stages
        ],
        "advice": lint_stage_order(pipeline),
        "limits": {
            "max_runtime_s": limits.max_runtime_s,
            "stall_timeout_s": limits.stall_timeout_s,
        },
    }


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
    show_job(out, job, rt.clock(), new=new)
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
        with show_steps(out) as progress:

            def report(step: str, done: int) -> None:
                steps[step] = done
                if done:
                    progress(step, done)

            return await submit_job(rt, submission, chunks, report)
    except (asyncio.CancelledError, StoreError):
        if steps.keys() - {"read"}:  # only then the job may exist
            sure = any(done for step, done in steps.items() if step != "read")
            was = "was created;" if sure else "may have been created; if so,"
            out.say(
                f"job {job} {was} a reconciler will finish its submit; "
                f"next: piecework jobs watch {job}"
            )
        raise
