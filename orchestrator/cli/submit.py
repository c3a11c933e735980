"""`submit`: cut the input into chunks and start the job, or say what that would be."""

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
        typer.Argument(help="`package.module:pipeline`, or a module that holds one."),
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
            help="Submitting twice under one id makes one job.",
            show_default="a new one",
        ),
    ] = "",
    deadline: DeadlineOption = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the job's end.")
    ] = False,
    timeout: TimeoutOption = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and cut everything, make nothing.")
    ] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Submit a document to a pipeline."""

    async def act(out: Output) -> int | None:
        from orchestrator.cli import submitting
        from piecework.loading import load_pipeline

        limit_s = submitting.check(job_id, wait=wait, timeout=timeout)
        found = load_pipeline(pipeline)
        if dry_run:
            await estimate(out, found, source)
            return None
        asked = submitting.Asked(pipeline, found, source, job_id, deadline)
        async with connection(out) as rt:
            return await submitting.start(rt, out, asked, wait=wait, limit_s=limit_s)

    run_async(act, output)


async def estimate(out: Output, pipeline: Pipeline, source: str) -> None:
    """Say what a submit would make."""
    from orchestrator.intake.s3 import SCHEME

    if source.startswith(SCHEME):
        async with connection(out) as rt:
            document = await cut(pipeline, source, rt.objects.client)
    else:
        document = await cut(pipeline, source, None)

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
                    ("stages", "\n".join(map(limited, document["stages"]))),
                    ("advice", "\n".join(document["advice"])),
                    ("a claim", limits(document["limits"])),
                    ("labels", "\n".join(shown)),
                ]
            )
        )

    out.document(document, draw)
    if out.table:
        out.say("nothing was made; next: the same without --dry-run")


def limited(stage: dict[str, Any]) -> str:
    """Return a stage and how long it may take."""
    limit = stage["timeout_s"]
    said = "as long as a claim" if limit is None else f"{limit:g} s at the most"
    return f"{stage['stage']}: {said}"


def limits(found: dict[str, Any]) -> str:
    """Return what ends a claim, whatever its stage."""
    return (
        f"{found['max_runtime_s']:g} s at the most, "
        f"{found['stall_timeout_s']:g} s without a finished call or stage"
    )


async def cut(pipeline: Pipeline, source: str, s3: Any) -> dict[str, Any]:
    """Read the source to its end, as a submit would."""
    from orchestrator.intake import chunk_inputs
    from piecework.settings import load_settings
    from piecework.step_order import advice

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
        "advice": advice(pipeline),
        "limits": load_settings().model_dump(
            include={"max_runtime_s", "stall_timeout_s"}
        ),
    }
