"""`results`: what the chunks came to, as lines; and the join's artifacts as files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.formats import Format
from orchestrator.cli.options import JobArgument
from orchestrator.cli.run import complain, run_connected

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
            "--follow", help="Print each as soon as it is there, until the job ends."
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
        Format, typer.Option("-o", "--output", help="The form of the result.")
    ] = Format.JSONL,
) -> None:
    """Print the result of each chunk.

    A dead one has an error code in the place of a value.
    """

    async def act(rt: Runtime, out: Output) -> int:
        from orchestrator.cli.saving import save_artifacts
        from orchestrator.inspector import require_job

        record = await require_job(rt, job)
        lost = Lost(out)
        code = 0
        if follow:
            record, code = await print_as_they_come(rt, out, record, lost)
        else:
            await print_what_is_there(rt, out, record, lost)
        if save is not None:
            await save_artifacts(rt, record, save, out.say)
        return lost.code or code

    run_connected(act, output)


@dataclass(slots=True)
class Lost:
    """Says why a result cannot be had, counts them, and keeps the exit code."""

    out: Output
    count: int = 0
    code: int = 0

    def __call__(self, error: PieceworkError) -> None:
        """Note one."""
        complain(error, self.out)
        self.count += 1
        self.code = error.exit_code


async def print_what_is_there(rt: Runtime, out: Output, job: Job, lost: Lost) -> None:
    """Print the chunks that have ended, in their order."""
    from orchestrator.cli.harvesting import ended_chunks
    from orchestrator.cli.output import Column, encode

    lines = ended_chunks(rt, job, lost)
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
    if (ended := printed + lost.count) < job.chunks:
        step = f"next: piecework results {job.ref.job} --follow"
        then = f"the job is {job.status}" if job.status.ended else step
        out.say(f"{ended} of {job.chunks} chunks have ended; {then}")


async def print_as_they_come(
    rt: Runtime, out: Output, job: Job, lost: Lost
) -> tuple[Job, int]:
    """Print each chunk when it has ended; return the ended job and its exit code."""
    from orchestrator.cli.harvesting import Follower
    from orchestrator.cli.waited import exit_code
    from orchestrator.inspector import open_letters
    from orchestrator.waiting import Watcher, watch
    from piecework.errors import UsageError

    if out.format is not Format.JSONL:
        message = "--follow writes lines as they come, so it is -o jsonl only."
        raise UsageError(message)
    follower = Follower(rt, out.line, lost)
    hint = (
        "no worker seems to be running, start one with "
        "`piecework-worker --pipelines MODULE`"
    )
    watcher = Watcher(
        told=lambda _: None, looked=follower.look, hint=hint, remark=out.say
    )
    ended = await watch(rt, job.ref.job, watcher)
    letters = await open_letters(rt, ended.ref)
    return ended, exit_code({"status": ended.status, "dead_letters": letters})
