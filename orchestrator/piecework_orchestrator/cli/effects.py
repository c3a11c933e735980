"""`effects`: list the effects in doubt, and resolve them."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from piecework.errors import UsageError
from piecework.runtime import Runtime
from piecework_orchestrator.cli.options import (
    ChunkArgument,
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
from piecework_orchestrator.cli.output import Column, Output, facts
from piecework_orchestrator.cli.run import confirm, run_connected
from piecework_orchestrator.effects import ResolutionRequest, effects_in_doubt, resolve
from piecework_orchestrator.identity import whoami
from piecework_orchestrator.inspector import require_job


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
        request = read_resolution(key, answer, reason, outcome)
        record = await require_job(rt, job)
        ref = record.ref.chunk(parse_chunk(chunk))
        word = "happened" if request.answer is not None else "did not happen"
        await confirm(f"Record that {key} of {ref} {word}", out, yes=yes)
        resolved = await resolve(rt, ref, request)
        out.document(resolved, lambda console: console.print(facts(resolved.items())))
        if out.table:
            redrive = f"piecework dlq redrive --job {job} --chunk {chunk} --reason WHY"
            resume = f"piecework jobs resume {job} --reason WHY"
            out.say(f"next: {redrive if resolved['status'] == 'DEAD' else resume}")

    run_connected(run, output)


def read_resolution(
    key: str, answer: str, reason: str, outcome: EffectOutcome | None
) -> ResolutionRequest:
    """Return the request if its arguments are complete and fit together.

    Raises:
        UsageError: `cli.usage.invalid`; `redrive.reason.missing`.
    """
    if outcome is None:
        message = "`effects resolve` requires --outcome."
        step = "Check the other system, then add --outcome happened or did-not-happen."
        raise UsageError(message, next_step=step)
    if not reason.strip():
        message = "`effects resolve` requires --reason, which is kept in the record."
        step = "Add --reason 'where the outcome was checked'."
        raise UsageError(message, code="redrive.reason.missing", next_step=step)
    happened = outcome is EffectOutcome.HAPPENED
    if not happened and answer != "null":
        message = "--answer is valid only with --outcome happened."
        step = "Remove --answer, or use --outcome happened."
        raise UsageError(message, next_step=step)
    try:
        json.loads(answer)
    except ValueError as error:
        message = f"--answer is not JSON: {error}."
        step = "Quote it for the shell: --answer '\"receipt-17\"'."
        raise UsageError(message, next_step=step) from error
    return ResolutionRequest(key, answer if happened else None, whoami(), reason)
