"""`effects`: list the effects in doubt, and resolve them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from piecework.domain.keys import is_compensation_stage
from piecework.domain.states import ChunkStatus
from piecework.runtime import Runtime
from piecework_orchestrator.cli.effects_found import Many, read_answer
from piecework_orchestrator.cli.options import (
    EffectOutcome,
    Format,
    JobArgument,
    OutputOption,
    ReasonOption,
    YesOption,
    limit_option,
    parse_chunk,
    take_first,
)
from piecework_orchestrator.cli.output import Output, facts
from piecework_orchestrator.cli.run import confirm, run_client, run_connected
from piecework_orchestrator.cli.table import Column
from piecework_orchestrator.client import Client
from piecework_orchestrator.dead_letters.letters import chunk_name
from piecework_orchestrator.operate.effects import (
    effects_in_doubt,
    effects_in_flight,
    require_reason,
)
from piecework_orchestrator.reading.job_documents import require_job


def list_effects(
    job: JobArgument,
    chunk: Annotated[
        str, typer.Option(metavar="N", help="Only effects of this chunk, or `join`.")
    ] = "",
    limit: Annotated[int, limit_option("Effects")] = 100,
    output: OutputOption = Format.TABLE,
) -> None:
    """List the effects in doubt of the chunks that have ended."""

    async def run(rt: Runtime, out: Output) -> None:
        record = await require_job(rt, job)
        only = parse_chunk(chunk) if chunk else None
        found, more = await take_first(effects_in_doubt(rt, record, only), limit)
        columns = [
            Column("CHUNK", lambda row: chunk_name(row["chunk"]), right=True),
            Column("STATUS", "status"),
            Column("STAGE", "stage"),
            Column("STATE", "state"),
            Column("KIND", "effect", drops=1),
            Column("STARTED", "started_at", drops=2),
            Column("KEY", lambda row: str(row["effect_key"])[:16]),
        ]
        out.rows(found, columns, "no effect of an ended chunk is in doubt")
        for one in await effects_in_flight(rt, record) if out.table else ():
            name, stage = chunk_name(one.chunk.ref.chunk), one.effect.stage
            out.say(
                f"chunk {name} waits until {one.until}: the effect of stage {stage} "
                "may still be executed for a lost worker"
            )
        if more and out.table:
            out.say(f"only the first {limit} are listed; --limit 0 lists all")
        if found and out.table:
            step = f"piecework effects resolve {job} CHUNK KEY --outcome happened"
            otherwise = "or --outcome did-not-happen --reason WHY"
            out.say(f"next: {step} --answer JSON --reason WHY, {otherwise}")

    run_connected(run, output)


def resolve_effect(  # noqa: PLR0913, PLR0917 -- the options of one command
    job: JobArgument,
    chunk: Annotated[
        str,
        typer.Argument(
            help="A chunk's number, or `join`.", show_default="see --all and --file"
        ),
    ] = "",
    key: Annotated[
        str,
        typer.Argument(
            help="The effect's key, or the beginning of the key.",
            show_default="see --all and --file",
        ),
    ] = "",
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Give this outcome to all effects in doubt that `effects list` lists "
            "for the job, or for CHUNK.",
        ),
    ] = False,
    stage: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="With --all: only of this stage.", show_default="all"
        ),
    ] = "",
    dependency: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="With --all: only calls of this dependency.",
            show_default="all",
        ),
    ] = "",
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="A file of lines, each a JSON object with `chunk`, `effect_key`, "
            "`outcome` and, if it happened, `answer`: `effects list -o jsonl` writes "
            "the first two.",
            show_default=False,
        ),
    ] = None,
    outcome: Annotated[
        EffectOutcome | None,
        typer.Option(
            help="Whether the other system executed the effect; required.",
            show_default=False,
        ),
    ] = None,
    answer: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="Required with --outcome happened: the value that the call returned.",
            show_default=False,
        ),
    ] = None,
    correct: Annotated[
        bool,
        typer.Option(
            "--correct",
            help="Replace an earlier resolution while the chunk is at its stage.",
        ),
    ] = False,
    reason: ReasonOption = "",
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Record whether an effect in doubt happened; check the other system first.

    An effect that happened is not repeated: its stage continues with the answer. An
    effect that did not happen is repeated with a fresh key after a redrive or a
    retry.
    """
    many = Many(chunk, key, stage, dependency, file, every=every, correct=correct)
    if many.is_meant:
        many.resolve(job, outcome, answer, reason, yes=yes, output=output)
        return

    async def run(client: Client, out: Output) -> None:
        value = read_answer(answer, outcome)
        require_reason(reason)
        number, happened = parse_chunk(chunk), outcome is EffectOutcome.HAPPENED
        handle = client.job(job)
        await handle.facts()
        word = "happened" if happened else "did not happen"
        what = f"Record that {key} of {handle.ref.chunk(number)} {word}"
        await confirm(what, out, yes=yes)
        resolved = await handle.resolve_effect(
            number,
            key,
            reason,
            happened=happened,
            answer=value,
            correct=correct,
        )
        out.document(resolved, lambda console: console.print(facts(resolved.items())))
        if out.table:
            out.say(f"next: {next_command(resolved, chunk)}")

    def check() -> None:
        many.require_fitting()
        read_answer(answer, outcome)
        require_reason(reason)
        parse_chunk(chunk)

    run_client(run, output, before=check)


def next_command(resolved: Mapping[str, Any], chunk: str) -> str:
    """Return the command that lets a chunk use the resolution of its effect."""
    job = resolved["job"]
    if resolved["status"] == ChunkStatus.SUCCEEDED:
        return f"piecework effects list {job}"
    if resolved["status"] != ChunkStatus.DEAD:
        return f"piecework jobs retry {job} --reason WHY"
    if chunk == "join":
        return f"piecework dlq redrive --job {job} --reason WHY"
    if is_compensation_stage(resolved["stage"]):
        return f"piecework dlq compensate --job {job} --chunk {chunk} --reason WHY"
    return f"piecework dlq redrive --job {job} --chunk {chunk} --reason WHY"
