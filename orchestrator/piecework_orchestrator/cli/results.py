"""`results`: print the results of chunks as lines; save the join's artifacts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from piecework.domain import keys, records
from piecework.domain.model import Chunk, ChunkStatus, Job, JobStatus
from piecework.domain.records import JsonRefusedError, require_bounded
from piecework.domain.rows import StageRow
from piecework.domain.values import BOUNDS
from piecework.errors import PermanentError, PieceworkError, StateError, UsageError
from piecework.runtime import Runtime
from piecework.store.completion import chunks_of_group, read_chunks
from piecework.store.results import NULL, ONE_BY_ONE, stored_results
from piecework_orchestrator.cli.files import make_folder, whole_file
from piecework_orchestrator.cli.options import Format, JobArgument
from piecework_orchestrator.cli.output import Column, Output, encode
from piecework_orchestrator.cli.progress import exit_code
from piecework_orchestrator.cli.run import report_error, run_connected
from piecework_orchestrator.inspector import (
    dead_letters_of,
    read_certificate,
    require_job,
)
from piecework_orchestrator.watch import Watcher, watch


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
    letters = await dead_letters_of(rt).count_open(ended.ref)
    return ended, exit_code({"status": ended.status, "dead_letters": letters})


Line = dict[str, Any]
#: Called with the error of a result that cannot be read; other results still can.
OnError = Callable[[PieceworkError], None]


async def ended_chunks(rt: Runtime, job: Job, on_error: OnError) -> AsyncIterator[Line]:
    """Yield a line for each chunk that has ended, in order."""
    for group in range(keys.partition_count(job.chunks)):
        for chunk, result in await read_group(rt, job, group):
            if (document := await result_line(rt, chunk, result, on_error)) is not None:
                yield document


@dataclass(slots=True)
class Follower:
    """Prints every chunk when it ends, and again if it ends in another way.

    A group's tally says when to read its chunks; the last poll, of an ended job, reads
    all chunks.
    """

    rt: Runtime
    write: Callable[[Line], None]
    on_error: OnError
    _tallied: dict[int, frozenset[int]] = field(default_factory=dict)
    _written: dict[int, tuple[str, int]] = field(default_factory=dict)

    async def poll(self, job: Job) -> None:
        """Print the chunks that have ended since the last poll."""
        for group in range(keys.partition_count(job.chunks)):
            new = await self._newly_ended(job, group)
            if not new and not job.status.ended:
                continue
            found = await read_group(
                self.rt, job, group, None if job.status.ended else new
            )
            for chunk, result in found:
                mark = (str(chunk.status), chunk.gen)
                if self._written.get(chunk.ref.chunk) == mark:
                    continue
                document = await result_line(self.rt, chunk, result, self.on_error)
                if document is not None:
                    self.write(document)
                self._written[chunk.ref.chunk] = mark

    async def _newly_ended(self, job: Job, group: int) -> frozenset[int]:
        seen = self._tallied.get(group, frozenset())
        if len(seen) == keys.partition_size(group, job.chunks) and job.gen == 1:
            return frozenset()  # full, and only a reopening removes chunks
        self._tallied[group] = await self.rt.tallies.ended_of_group(job.ref, group)
        return self._tallied[group] - seen


async def read_group(
    rt: Runtime, job: Job, group: int, wanted: Iterable[int] | None = None
) -> list[tuple[Chunk, StageRow | None]]:
    """Return the chunks of a group that have ended, each with its stored result.

    The chunks are read before the results: a chunk that has ended has its result.
    """
    pk = keys.partition_pk(job.ref.tenant, job.ref.job, group)
    if wanted is not None and len(numbers := sorted(wanted)) <= ONE_BY_ONE:
        found = await read_chunks(rt.table, map(job.ref.chunk, numbers))
    else:
        found = [chunk async for chunk in chunks_of_group(rt.table, job.ref, group)]
    ended = [chunk for chunk in found if chunk.status.terminal]
    return await stored_results(rt.table, pk, ended)


async def result_line(
    rt: Runtime, chunk: Chunk, result: StageRow | None, on_error: OnError
) -> Line | None:
    """Return the line of a chunk; report a result that cannot be read."""
    facts: Line = {
        "chunk": chunk.ref.chunk,
        "label": chunk.label,
        "status": str(chunk.status),
    }
    if chunk.status is not ChunkStatus.SUCCEEDED:
        return {**facts, "error_code": chunk.error_code}
    try:
        return {**facts, "value": await value_of(rt, chunk, result)}
    except (StateError, PermanentError) as error:
        on_error(error)
        return None


async def value_of(rt: Runtime, chunk: Chunk, result: StageRow | None) -> Any:
    """Return the result of a chunk.

    Raises:
        StateError: `runtime.state.checkpoint_corrupt`: the stored result is not the
            one that the chunk settled with; `runtime.object.missing`.
        PermanentError: The stored result was changed.
    """
    prefix = keys.object_prefix(chunk.ref.tenant, chunk.ref.job)
    value = NULL if result is None else await rt.objects.get_value(result, prefix)
    if keys.sha256(value.encode()) != chunk.result_sha256:
        message = f"The stored result of chunk {chunk.ref} does not match its hash."
        raise StateError(message, code="runtime.state.checkpoint_corrupt")
    try:
        return json.loads(require_bounded(value, BOUNDS))
    except (JsonRefusedError, ValueError) as error:
        what, why = f"The result of {chunk.ref}", "is not valid JSON within the limits"
        raise records.unreadable_error(what, why) from error


CERTIFICATE = "certificate.json"
#: A reopened job keeps its artifacts, and a failed join may have written some.
JOIN_FAILED_REMARK = (
    "the join did not succeed: the saved artifacts may be incomplete or of an earlier "
    "run, and may not match the certificate"
)


async def save_artifacts(
    rt: Runtime, job: Job, folder: Path, say: Callable[[str], None]
) -> list[Path]:
    """Save the join's artifacts and the certificate; return the files.

    Names are checked again, although the join checked them: another program may have
    written to the bucket, and a name must not lead out of the folder.

    Raises:
        UsageError: `job.state.not_finished`; `cli.usage.invalid`: the folder cannot
            be written to.
    """
    proof = await read_certificate(rt, job)
    if proof is None:
        message = f"Job {job.ref.job} is {job.status}: it has no artifacts yet."
        step = f"`piecework results {job.ref.job} --follow --save {folder}`"
        raise UsageError(message, code="job.state.not_finished", next_step=step)
    prefix = keys.artifact_key(job.ref.tenant, job.ref.job, "")
    found = [key async for key in rt.objects.names(prefix)]
    names = [key.removeprefix(prefix) for key in found]
    make_folder(folder)
    saved = []
    for name in filter(keys.is_file_name, names):
        with whole_file(folder / name) as file:
            async for block in rt.objects.blocks(prefix + name):
                file.write(block)
        saved.append(folder / name)
    joined = not proof.get("join_error") and job.status is not JobStatus.CANCELLED
    own = CERTIFICATE if CERTIFICATE not in names else f"{job.ref.job}.{CERTIFICATE}"
    with whole_file(folder / own) as file:
        file.write(json.dumps(proof, ensure_ascii=False, indent=1).encode() + b"\n")
    for path in [*saved, folder / own]:
        say(f"saved {path}")
    if saved and not joined:
        say(JOIN_FAILED_REMARK)
    return [*saved, folder / own]
