"""`results`: print the results of chunks as lines, or write them to files."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from piecework.domain import records
from piecework.domain.job import Job
from piecework.domain.strict_json import JsonRefusedError, require_bounded
from piecework.domain.values import BOUNDS
from piecework.errors import PermanentError, PieceworkError, StateError, UsageError
from piecework.runtime import Runtime
from piecework_orchestrator.cli.options import Format, JobArgument, SaveOption
from piecework_orchestrator.cli.output import Output, encode
from piecework_orchestrator.cli.progress import exit_code
from piecework_orchestrator.cli.run import report_error, run_connected
from piecework_orchestrator.cli.table import Column
from piecework_orchestrator.reading.job_documents import dead_letters_of, require_job
from piecework_orchestrator.reading.watch import POLL_S, Watcher, watch
from piecework_orchestrator.results.artifacts import save_artifacts
from piecework_orchestrator.results.export import export, writer_of
from piecework_orchestrator.results.results import (
    EndedChunk,
    Follower,
    ended_chunks,
    result_json,
)


class With(StrEnum):
    """A fact that a result may have beside its value."""

    VERSION = "version"


def results(
    job: JobArgument,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Print each result when its chunk ends, until the job ends.",
        ),
    ] = False,
    save: SaveOption = None,
    to: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Write the results to this .jsonl, .csv or .parquet file instead, a "
            "path or s3://bucket/key.",
            show_default=False,
        ),
    ] = "",
    escape_formulas: Annotated[
        bool,
        typer.Option(
            "--escape-formulas",
            help="With --to FILE.csv: begin texts that a spreadsheet would compute "
            "(=, +, -, @, tab) with an apostrophe.",
        ),
    ] = False,
    more: Annotated[
        list[With] | None,
        typer.Option(
            "--with",
            help="Add a fact to each result; `version`: the code that made it.",
        ),
    ] = None,
    output: Annotated[
        Format | None,
        typer.Option(
            "-o", "--output", help="The format of the result.", show_default="jsonl"
        ),
    ] = None,
) -> None:
    """Print the result of each chunk.

    A chunk without a result has an error code instead of a value.
    """
    with_version = With.VERSION in (more or ())

    async def run(rt: Runtime, out: Output) -> int:
        record = await require_job(rt, job)
        errors = ResultErrors(out)
        code = 0
        if to:
            count = await export(
                *(rt, record, to),
                escape_formulas=escape_formulas,
                with_version=with_version,
            )
            out.say(f"{count} of {record.chunks} chunks are in {to}")
        elif follow:
            hint = (
                "no worker seems to be running; start one with "
                "`piecework worker --pipelines MODULE`"
            )
            watcher = Watcher(lambda _: None, remark=out.say, no_worker_hint=hint)
            record = await follow_results(
                rt, out, job, errors, watcher, with_version=with_version
            )
            letters = await dead_letters_of(rt).count_open(record.ref)
            code = exit_code({"status": record.status, "dead_letters": letters})
        else:
            await print_results(rt, out, record, errors, with_version=with_version)
        if save is not None:
            await save_artifacts(rt, record, save, out.say)
        return errors.code or code

    form = output or Format.JSONL
    run_connected(
        run,
        form,
        plain_errors=output is None,
        before=lambda: check_options(
            to, output, follow=follow, escape_formulas=escape_formulas
        ),
    )


def check_options(
    to: str, output: Format | None, *, follow: bool, escape_formulas: bool
) -> None:
    """Refuse options that exclude each other, and a file of an unknown kind.

    Raises:
        UsageError: `cli.usage.invalid`, `cli.extra.missing`.
    """
    if to and follow:
        message = "--follow prints results as they come, and --to writes a file."
        raise UsageError(message, next_step="Remove one of the two options.")
    if to and output is not None:
        message = "--to writes a file, and its ending gives the format."
        raise UsageError(message, next_step="Remove -o.")
    if follow and output not in (None, Format.JSONL):
        message = "--follow writes one line per chunk, and requires -o jsonl."
        raise UsageError(message, next_step="Remove -o, or use -o jsonl.")
    if to:
        writer_of(to, escape_formulas=escape_formulas)
    elif escape_formulas:
        message = "--escape-formulas is valid only with --to FILE.csv."
        raise UsageError(message, next_step="Add --to, or remove the option.")


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
    rt: Runtime, out: Output, job: Job, errors: ResultErrors, *, with_version: bool
) -> None:
    """Print the chunks that have ended, by number."""
    lines = result_lines(rt, job, errors, with_version=with_version)
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
            *([Column("CODE", "code_version")] if with_version else []),
            Column(
                "VALUE",
                lambda row: (
                    encode(row["value"], Format.JSONL).strip()
                    if "value" in row
                    else row["error_code"]
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


async def result_lines(
    rt: Runtime, job: Job, on_error: OnError, *, with_version: bool = False
) -> AsyncIterator[Line]:
    """Yield a line for each chunk that has ended, in order."""
    async for ended in ended_chunks(rt, job):
        line = await result_line(rt, ended, on_error, with_version=with_version)
        if line is not None:
            yield line


async def follow_results(
    rt: Runtime,
    out: Output,
    job: str,
    errors: ResultErrors,
    watcher: Watcher,
    poll_s: float = POLL_S,
    leave_out: Callable[[EndedChunk], bool] = lambda _: False,
    *,
    with_version: bool = False,
) -> Job:
    """Print each chunk when it ends, except those left out; return the ended job."""
    follower = Follower(rt)

    async def print_new(found: Job) -> None:
        async for ended in follower.newly_ended(found):
            if leave_out(ended):
                continue
            line = await result_line(rt, ended, errors, with_version=with_version)
            if line is not None:
                out.line(line)

    watcher.on_poll = print_new
    return await watch(rt, job, watcher, poll_s=poll_s)


Line = dict[str, Any]
#: Called with the error of a result that cannot be read; other results still can.
OnError = Callable[[PieceworkError], None]


async def result_line(
    rt: Runtime, ended: EndedChunk, on_error: OnError, *, with_version: bool = False
) -> Line | None:
    """Return the line of a chunk; report a result that cannot be read."""
    chunk = ended.chunk
    facts: Line = {
        "chunk": chunk.ref.chunk,
        "label": chunk.label,
        "status": str(chunk.status),
        **({"code_version": ended.code_version} if with_version else {}),
    }
    if not ended.succeeded:
        return {**facts, "error_code": ended.error_code}
    try:
        return {**facts, "value": await value_of(rt, ended)}
    except (StateError, PermanentError) as error:
        on_error(error)
        return None


async def value_of(rt: Runtime, ended: EndedChunk) -> Any:
    """Return the result of a chunk, as JSON has it.

    Raises:
        StateError, PermanentError: As `result_json`.
        PermanentError: `runtime.record.unreadable`.
    """
    text = await result_json(rt, ended)
    try:
        return json.loads(require_bounded(text, BOUNDS))
    except (JsonRefusedError, ValueError) as error:
        what = f"The result of {ended.chunk.ref}"
        why = "is not valid JSON within the limits"
        raise records.unreadable_error(what, why) from error
