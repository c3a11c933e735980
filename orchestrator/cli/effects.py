"""`effects`: what may have happened outside, and a person's word on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.formats import Format
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
    help="Settle effects of which nobody knows whether they happened.",
    no_args_is_help=True,
)


@app.command("list")
def list_effects(
    job: JobArgument,
    chunk: Annotated[
        str, typer.Option(metavar="N", help="Only those of this chunk, or `join`.")
    ] = "",
    limit: Annotated[int, limit_option("Effects")] = 100,
    output: OutputOption = Format.TABLE,
) -> None:
    """List the effects in doubt of the chunks that ended without a result."""

    async def act(rt: Runtime, out: Output) -> None:
        from orchestrator.cli.lists import chunk_number, first
        from orchestrator.cli.output import Column
        from orchestrator.doubt import doubts
        from orchestrator.inspector import require_job

        record = await require_job(rt, job)
        only = chunk_number(chunk) if chunk else None
        found, more = await first(doubts(rt, record, only), limit)
        columns = [
            Column("CHUNK", "chunk", right=True),
            Column("STATUS", "status"),
            Column("STAGE", "stage"),
            Column("STATE", "effect_state"),
            Column("KIND", "effect"),
            Column("BEGUN", "begun_at"),
            Column("KEY", lambda row: str(row["effect_key"])[:16]),
        ]
        out.rows(found, columns, "no effect is in doubt")
        if more and out.table:
            out.say(f"the first {limit}; --limit 0 lists all")
        if found and out.table:
            out.say(f"next: piecework effects settle {job} CHUNK KEY --happened")

    run_connected(act, output)


@app.command("settle")
def settle_effect(
    job: JobArgument,
    chunk: ChunkArgument,
    key: Annotated[str, typer.Argument(help="The effect's key, or how it begins.")],
    happened: Annotated[
        bool | None,
        typer.Option(
            "--happened/--did-not-happen",
            help="What the other system says.",
            show_default="one of them is needed",
        ),
    ] = None,
    answer: Annotated[
        str,
        typer.Option(
            metavar="JSON", help="With --happened: what the call would have returned."
        ),
    ] = "null",
    reason: ReasonOption = "",
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Say whether an effect in doubt happened, after a look in the other system.

    What happened is not done again: its stage goes on with the answer. What did not
    is begun anew by a redrive or a resume, with a fresh key.
    """

    async def act(rt: Runtime, out: Output) -> None:
        from orchestrator.cli import asking
        from orchestrator.cli.lists import chunk_number
        from orchestrator.cli.output import facts
        from orchestrator.cli.settling import read_word
        from orchestrator.doubt import settle
        from orchestrator.inspector import require_job

        word = read_word(key, answer, reason, happened=happened)
        record = await require_job(rt, job)
        ref = record.ref.chunk(chunk_number(chunk))
        said = "happened" if happened else "did not happen"
        await asking.confirm(f"Settle that {key} of {ref} {said}", out, yes=yes)
        settled = await settle(rt, ref, word)
        out.document(settled, lambda console: console.print(facts(settled.items())))
        if out.table:
            redrive = f"piecework dlq redrive --job {job} --chunk {chunk} --reason WHY"
            resume = f"piecework jobs resume {job} --reason WHY"
            out.say(f"next: {redrive if settled['status'] == 'DEAD' else resume}")

    run_connected(act, output)
