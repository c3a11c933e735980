"""`submit`: split the input into chunks and start a job, or estimate it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.formats import Format
from orchestrator.cli.options import DeadlineOption, OutputOption, TimeoutOption
from orchestrator.cli.run import connection, run_async

if TYPE_CHECKING:
    from orchestrator.cli.output import Output
    from piecework.pipeline import Pipeline

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
            help="A document, a directory, a .jsonl manifest, `-`, or s3://bucket/key."
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
        from orchestrator.cli import submitting
        from piecework.loading import load_pipeline

        limit_s = submitting.check_options(job_id, wait=wait, timeout=timeout)
        found = load_pipeline(pipeline)
        if dry_run:
            await show_estimate(out, found, source)
            return None
        request = submitting.SubmitRequest(pipeline, found, source, job_id, deadline)
        async with connection(out) as rt:
            return await submitting.start_job(
                rt, out, request, wait=wait, limit_s=limit_s
            )

    run_async(run, output)


async def show_estimate(out: Output, pipeline: Pipeline, source: str) -> None:
    """Write the chunks, calls and limits that a submit would have."""
    from orchestrator.intake.s3 import SCHEME

    if source.startswith(SCHEME):
        async with connection(out) as rt:
            document = await estimate(pipeline, source, rt.objects.client)
    else:
        document = await estimate(pipeline, source, None)

    from orchestrator.cli.output import facts

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
    from orchestrator.intake import chunk_inputs
    from piecework.settings import load_settings
    from piecework.step_order import lint_stage_order

    labels: list[str] = []
    chunks = size = 0
    async for chunk in chunk_inputs(source, pipeline, s3=s3):
        chunks += 1
        size += len(chunk.payload)
        if len(labels) < FIRST_LABELS:
            labels.append(chunk.label)
    each = pipeline.calls_per_chunk
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
        "limits": load_settings().model_dump(
            include={"max_runtime_s", "stall_timeout_s"}
        ),
    }
