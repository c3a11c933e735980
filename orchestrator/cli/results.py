"""`results`: print the results of chunks as lines; save the join's artifacts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.formats import Format
from orchestrator.cli.options import JobArgument
from orchestrator.cli.run import report_error, run_connected

if TYPE_CHECKING:
    from orchestrator.cli.output import Output
    from piecework.errors import PieceworkError
    from piecework.model import Job
    from piecework.runtime import Runtime


def results(
    job: JobArgument,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Print each result when its chunk ends, until the job ends.",
        ),
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option(
            help="Also save the join's artifacts and the certificate into this folder.",
            file_okay=False,
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Format, typer.Option("-o", "--output", help="The format of the result.")
    ] = Format.JSONL,
) -> None:
    """Print the result of each chunk.

    A chunk without a result has an error code instead of a value.
    """

    async def run(rt: Runtime, out: Output) -> int:
        from orchestrator.cli.saving import save_artifacts
        from orchestrator.inspector import require_job

        record = await require_job(rt, job)
        errors = ResultErrors(out)
        code = 0
        if follow:
            record, code = await follow_results(rt, out, record, errors)
        else:
            await print_results(rt, out, record, errors)
        if save is not None:
            await save_artifacts(rt, record, save, out.say)
        return errors.code or code

    run_connected(run, output)


@dataclass(slots=True)
class ResultErrors:
    """Reports and counts the results that cannot be read, and keeps the exit code."""

    out: Output
    count: int = 0
    code: int = 0

    def __call__(self, error: PieceworkError) -> None:
        """Report a result that cannot be read."""
        report_error(error, self.out)
        self.count += 1
        self.code = error.exit_code


async def print_results(
    rt: Runtime, out: Output, job: Job, errors: ResultErrors
) -> None:
    """Print the chunks that have ended, by number."""
    from orchestrator.cli.harvesting import ended_chunks
    from orchestrator.cli.output import Column, encode

    lines = ended_chunks(rt, job, errors)
    printed = 0
    if out.format is Format.JSONL:
        async for line in lines:
            out.line(line)
            printed += 1
    else:
        columns = [
            Column("CHUNK", "chunk", right=True),
            Column("STATUS", "status"),
            Column("LABEL", "label", shrinks=True),
            Column(
                "VALUE",
                lambda row: (
                    row.get("error_code") or encode(row["value"], Format.JSONL).strip()
                ),
                shrinks=True,
            ),
        ]
        found = [line async for line in lines]
        printed = len(found)
        out.rows(found, columns, "")
    if (ended := printed + errors.count) < job.chunks:
        step = f"next: piecework results {job.ref.job} --follow"
        then = f"the job is {job.status}" if job.status.ended else step
        out.say(f"{ended} of {job.chunks} chunks have ended; {then}")


async def follow_results(
    rt: Runtime, out: Output, job: Job, errors: ResultErrors
) -> tuple[Job, int]:
    """Print each chunk when it ends; return the ended job and its exit code."""
    from orchestrator.cli.harvesting import Follower
    from orchestrator.cli.waited import exit_code
    from orchestrator.inspector import count_open_letters
    from orchestrator.waiting import Watcher, watch
    from piecework.errors import UsageError

    if out.format is not Format.JSONL:
        message = "--follow writes one line per chunk, and requires -o jsonl."
        raise UsageError(message, next_step="Remove -o, or use -o jsonl.")
    follower = Follower(rt, out.line, errors)
    hint = (
        "no worker seems to be running; start one with "
        "`piecework-worker --pipelines MODULE`"
    )
    watcher = Watcher(
        on_progress=lambda _: None,
        on_poll=follower.poll,
        remark=out.say,
        no_worker_hint=hint,
    )
    ended = await watch(rt, job.ref.job, watcher)
    letters = await count_open_letters(rt, ended.ref)
    return ended, exit_code({"status": ended.status, "dead_letters": letters})
