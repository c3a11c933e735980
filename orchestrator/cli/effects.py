"""`effects`: list the effects in doubt, and resolve them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.formats import EffectOutcome, Format
from orchestrator.cli.options import (
    ChunkArgument,
    JobArgument,
    OutputOption,
    ReasonOption,
    YesOption,
    limit_option,
)
from orchestrator.cli.run import run_connected

if TYPE_CHECKING:
    from orchestrator.cli.output import Output
    from piecework.runtime import Runtime

app = typer.Typer(
    help="Resolve effects whose outcome is unknown.",
    no_args_is_help=True,
)


@app.command("list")
def list_effects(
    job: JobArgument,
    chunk: Annotated[
        str, typer.Option(metavar="N", help="Only effects of this chunk, or `join`.")
    ] = "",
    limit: Annotated[int, limit_option("Effects")] = 100,
    output: OutputOption = Format.TABLE,
) -> None:
    """List the effects in doubt of the chunks that ended without a result."""

    async def run(rt: Runtime, out: Output) -> None:
        from orchestrator.cli.lists import parse_chunk, take_first
        from orchestrator.cli.output import Column
        from orchestrator.doubt import effects_in_doubt
        from orchestrator.inspector import require_job

        record = await require_job(rt, job)
        only = parse_chunk(chunk) if chunk else None
        found, more = await take_first(effects_in_doubt(rt, record, only), limit)
        columns = [
            Column("CHUNK", "chunk", right=True),
            Column("STATUS", "status"),
            Column("STAGE", "stage"),
            Column("STATE", "state"),
            Column("KIND", "effect"),
            Column("STARTED", "started_at"),
            Column("KEY", lambda row: str(row["effect_key"])[:16]),
        ]
        out.rows(found, columns, "no effect is in doubt")
        if more and out.table:
            out.say(f"only the first {limit} are listed; --limit 0 lists all")
        if found and out.table:
            step = f"piecework effects resolve {job} CHUNK KEY --outcome happened"
            out.say(f"next: {step}")

    run_connected(run, output)


@app.command("resolve")
def resolve_effect(
    job: JobArgument,
    chunk: ChunkArgument,
    key: Annotated[
        str, typer.Argument(help="The effect's key, or the beginning of the key.")
    ],
    outcome: Annotated[
        EffectOutcome | None,
        typer.Option(
            help="Whether the other system executed the effect; required.",
            show_default=False,
        ),
    ] = None,
    answer: Annotated[
        str,
        typer.Option(
            metavar="JSON",
            help="With --outcome happened: the value that the call returned.",
        ),
    ] = "null",
    reason: ReasonOption = "",
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Record whether an effect in doubt happened; check the other system first.

    An effect that happened is not repeated: its stage continues with the answer. An
    effect that did not happen is repeated with a fresh key after a redrive, a retry or
    a resume.
    """

    async def run(rt: Runtime, out: Output) -> None:
        from orchestrator.cli import asking
        from orchestrator.cli.lists import parse_chunk
        from orchestrator.cli.output import facts
        from orchestrator.cli.settling import read_resolution
        from orchestrator.doubt import resolve
        from orchestrator.inspector import require_job

        request = read_resolution(key, answer, reason, outcome)
        record = await require_job(rt, job)
        ref = record.ref.chunk(parse_chunk(chunk))
        word = "happened" if request.answer is not None else "did not happen"
        await asking.confirm(f"Record that {key} of {ref} {word}", out, yes=yes)
        resolved = await resolve(rt, ref, request)
        out.document(resolved, lambda console: console.print(facts(resolved.items())))
        if out.table:
            redrive = f"piecework dlq redrive --job {job} --chunk {chunk} --reason WHY"
            resume = f"piecework jobs resume {job} --reason WHY"
            out.say(f"next: {redrive if resolved['status'] == 'DEAD' else resume}")

    run_connected(run, output)
