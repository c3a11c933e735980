"""`piecework run`: submit, work, print the results and end, all in one process."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from piecework import telemetry
from piecework.client import Client, JobHandle
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.model import Job
from piecework.loading import load_pipeline
from piecework.pipelines import Pipeline
from piecework.runtime import Runtime
from piecework.settings import Settings, load_settings
from piecework_orchestrator.artifacts import save_artifacts
from piecework_orchestrator.cli.options import Format
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.progress import exit_code, show_progress
from piecework_orchestrator.cli.results import ResultErrors, follow_results
from piecework_orchestrator.cli.run import LOG_LEVEL, run_async
from piecework_orchestrator.inspector import dead_letters_of, job_document
from piecework_simulation.in_process import InProcessAws, worker_beside

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)

#: Seconds between two polls for results: a poll costs nothing here.
POLL_S = 0.25
#: Threads besides those of the stages, for host names.
SPARE_THREADS = 8
#: Causes of dead letters that the end of the run lists.
MAX_CAUSES = 5


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def run(
    pipeline: Annotated[
        str,
        typer.Argument(
            help="`package.module:pipeline`, or a module that defines one pipeline."
        ),
    ],
    source: Annotated[
        str,
        typer.Argument(
            help="A document, a directory, a .jsonl, .csv or .parquet file, or `-`."
        ),
    ],
    save: Annotated[
        Path | None,
        typer.Option(
            help="Save the join's artifacts and the certificate into this folder.",
            file_okay=False,
            show_default=False,
        ),
    ] = None,
    max_chunks: Annotated[
        int | None, typer.Option(help="Chunks that run at once.", min=1)
    ] = None,
) -> None:
    """Run a pipeline over an input on this machine, and print each result as a line.

    Everything runs in this process: nothing is installed, and nothing is left behind.
    Without --save, artifacts of the join are not kept. A run that is interrupted
    starts again from the beginning: for long jobs use `piecework up` and a worker.
    """

    async def main(out: Output) -> int:
        if LOG_LEVEL not in os.environ:  # the end of the run tells the errors
            telemetry.configure("critical", stream=out.stderr)
        overrides = {} if max_chunks is None else {"max_chunks": max_chunks}
        settings = load_settings(**overrides)
        found = load_pipeline(pipeline)
        with threads(settings):
            return await run_pipeline(out, settings, pipeline, found, source, save)

    run_async(main, Format.JSONL)


def threads(settings: Settings) -> ThreadPoolExecutor:
    """Make the loop's pool as large as plain stage functions need; return it."""
    pool = ThreadPoolExecutor(settings.max_chunks + SPARE_THREADS)
    asyncio.get_running_loop().set_default_executor(pool)
    return pool


async def run_pipeline(
    out: Output,
    settings: Settings,
    name: str,
    pipeline: Pipeline,
    source: str,
    save: Path | None,
) -> int:
    """Run a worker beside the submit and the results; return the exit code."""
    aws = InProcessAws(settings)
    rt = aws.runtime()
    module = name.partition(":")[0]
    async with AsyncExitStack() as stack:
        beside = worker_beside(aws, {pipeline.name: pipeline}, [module])
        worker = await stack.enter_async_context(beside)
        client = await stack.enter_async_context(Client(runtime=rt))
        job = await client.submit(pipeline, source)
        following = asyncio.create_task(follow(out, rt, job))
        await asyncio.wait({worker, following}, return_when=asyncio.FIRST_COMPLETED)
        if not following.done():
            following.cancel()
            worker.result()  # raises the error that ended the worker
        record, errors = await following
        if save is not None:
            await save_artifacts(rt, record, save, out.say)
        await show_end(out, rt, record)
        document = await job_document(rt, record)
        return errors or exit_code(document)


async def follow(out: Output, rt: Runtime, job: JobHandle[Any]) -> tuple[Job, int]:
    """Print each result when its chunk ends; return the job and the exit code."""
    errors = ResultErrors(out)
    with show_progress(out, "no chunk was started yet") as watcher:
        record = await follow_results(rt, out, job.id, errors, watcher, POLL_S)
    return record, errors.code


async def show_end(out: Output, rt: Runtime, job: Job) -> None:
    """Write the end of the job, and the first error of each cause."""
    out.say(f"{job.status}: {job.chunks} chunks")
    causes: dict[str, DeadLetterRow] = {}
    async for letter in dead_letters_of(rt).of_job(job.ref):
        causes.setdefault(letter.fingerprint, letter)
    for letter in list(causes.values())[:MAX_CAUSES]:
        where = f" in {letter.stage}" if letter.stage else ""
        out.say(f"dead {letter.error_code}{where}: {letter.error}")
    if len(causes) > MAX_CAUSES:
        out.say(f"and {len(causes) - MAX_CAUSES} causes more")


if __name__ == "__main__":
    app(prog_name="piecework run")
