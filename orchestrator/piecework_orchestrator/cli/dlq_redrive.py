"""`dlq redrive`: redrive the selected dead letters, job by job or in waves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated

import typer
from rich.console import Console

from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.refs import ChunkRef
from piecework.errors import UsageError
from piecework.explain.situation import EFFECT_IN_DOUBT
from piecework.runtime import Runtime
from piecework_orchestrator.cli.again import (
    FromOption,
    RepeatOption,
    ValueOption,
    make_again,
    show_again,
)
from piecework_orchestrator.cli.dlq import left_over, tell_unreadable
from piecework_orchestrator.cli.dlq_edit import (
    NewPayloads,
    make_edit,
    preview_payloads,
    warn_of_edit,
)
from piecework_orchestrator.cli.dlq_select import (
    ChunkOption,
    CodeOption,
    DryRunOption,
    FingerprintOption,
    JobOption,
    LimitOption,
    ReasonOption,
    SinceOption,
    StageOption,
)
from piecework_orchestrator.cli.options import Format, OutputOption, YesOption
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.progress import CANCELLED, DEAD_LETTERS_LEFT, OK
from piecework_orchestrator.cli.run import confirm, run_client
from piecework_orchestrator.cli.table import Column, Document, print_table
from piecework_orchestrator.cli.views.dead_letters import (
    letter_columns,
    letter_line,
    may_compensate_again,
)
from piecework_orchestrator.client import Client
from piecework_orchestrator.dead_letters.canary import Verdict, WaveResult
from piecework_orchestrator.dead_letters.closing import (
    Redriven,
    RedriveOptions,
    Selection,
    leave_out_refused,
    require_reason,
    select_open,
)
from piecework_orchestrator.dead_letters.compensate import only_uncompensated
from piecework_orchestrator.dead_letters.letters import chunk_name
from piecework_orchestrator.operate.effects import effects_of_letters
from piecework_orchestrator.operate.run_again import dead_chunks
from piecework_orchestrator.reading.selection import Filter
from piecework_orchestrator.reading.times import parse_limit

COLUMNS = [
    Column("WAVE", "wave", right=True),
    Column("REDRIVEN", "redriven", right=True),
    Column("SUCCEEDED", "succeeded", right=True),
    Column("DIED AGAIN", "died", right=True),
    Column("CANCELLED", "cancelled", right=True),
]


def redrive_letters(  # noqa: PLR0913, PLR0917 -- filters and safeguards, each wanted alone
    job: JobOption = None,
    code: CodeOption = None,
    fingerprint: FingerprintOption = None,
    stage: StageOption = None,
    since: SinceOption = None,
    chunk: ChunkOption = None,
    limit: LimitOption = 0,
    reason: ReasonOption = "",
    dry_run: DryRunOption = False,
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help="Dispatch N chunks a second.",
            min=0.01,
            show_default="all at once",
        ),
    ] = None,
    edit: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Replace the payload of one dead letter by this JSON file.",
        ),
    ] = "",
    patch: Annotated[
        str,
        typer.Option(
            metavar="JSON", help="Apply this JSON merge patch to each payload."
        ),
    ] = "",
    pipeline: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Check new payloads and values against this `module:pipeline`.",
        ),
    ] = "",
    from_: FromOption = "",
    value: ValueOption = "",
    repeat_effects: RepeatOption = False,
    canary: Annotated[
        int,
        typer.Option(
            metavar="K",
            help="Redrive K first, then twice as many, each wave after the jobs have "
            "ended; stop if a cause recurs (exit code 5).",
            min=0,
            show_default="all at once",
        ),
    ] = 0,
    timeout: Annotated[
        str,
        typer.Option(
            metavar="SPAN",
            help="With --canary: the longest wait (then exit code 7).",
            show_default="no limit",
        ),
    ] = "",
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Redrive dead letters after a fix.

    Their chunks are processed again, in a new generation of their job. The command
    skips a job that cannot be reopened now, and a dead letter that cannot be read. The
    exit code is then 5. With --from, completed stages run again, too: the command shows
    what they did, and refuses to let it happen twice without --repeat-effects.
    """
    wanted = Filter(job, code, fingerprint, stage, since, chunk)

    async def run(client: Client, out: Output) -> int:
        edit_ = make_edit(edit, patch, "" if value else pipeline)
        again = make_again(from_, value, pipeline, repeats=repeat_effects)
        options = RedriveOptions(edit_, rate, canary, parse_limit(timeout), again=again)
        rt = client.runtime
        damaged: list[ChunkRef] = []
        selection = await select_open(rt, wanted, damaged, limit)
        payloads = await preview_payloads(rt, selection.letters, edit_)
        warn_of_edit(out, selection, payloads, edit_)
        await warn_of_effects(rt, out, selection)
        chunks = dead_chunks(rt, selection.letters)
        preview = await show_again(rt, out, chunks, again, dry=dry_run)
        if dry_run:
            if preview is not None and not out.table:
                out.document(preview.document, lambda _: None)
            errors = preview.errors if preview is not None else {}
            taken = await leave_out_refused(rt, selection, out.tell, errors)
            if preview is None or out.table:
                show_redrive(rt, out, taken, payloads)
            return tell_unreadable(out, damaged) or left_over(taken, selection)
        require_reason(reason, "redrive", selection)
        await confirm(f"Redrive {selection}", out, yes=yes)
        perform = redrive_in_waves if canary else redrive_at_once
        ended = await perform(client, out, selection, reason, options)
        left = tell_unreadable(out, damaged)
        return ended or left

    def check() -> None:
        wanted.check()
        make_edit(edit, patch, "" if value else pipeline)
        make_again(from_, value, pipeline, repeats=repeat_effects)
        if timeout and not canary:
            message = "--timeout is valid only with --canary."
            raise UsageError(message, next_step="Add --canary K.")
        parse_limit(timeout)

    run_client(run, output, before=check)


async def warn_of_effects(rt: Runtime, out: Output, selection: Selection) -> None:
    """Write how many dead letters left effects, and what an operator does about them.

    A redrive of an effect in doubt ends in the same dead letter.
    """
    if doubts := await effects_of_letters(rt, selection.letters):
        first = doubts[0]
        job, chunk, key = first["job"], chunk_name(first["chunk"]), first["effect_key"]
        out.say(
            f"{len(doubts)} of their effects are in doubt: a redrive ends in the same"
            " dead letter until each is resolved. Check the other system, then"
            f" `piecework effects resolve {job} {chunk} {key[:16]} --outcome happened"
            " --answer JSON --reason WHY`, or `--outcome did-not-happen`"
        )
    left = only_uncompensated(selection.letters)
    failed = [letter for letter in left if may_compensate_again(letter.facts)]
    if failed:
        out.say(
            f"{len(failed)} of them left effects whose compensation failed: a redrive"
            " uses them as they are. `piecework dlq compensate` runs the compensation"
            " again"
        )
    without = [
        letter
        for letter in left
        if letter not in failed and letter.error_code != EFFECT_IN_DOUBT
    ]
    if without:
        out.say(
            f"{len(without)} of them left effects of stages without a compensation: a"
            " redrive uses them as they are"
        )


def show_redrive(
    rt: Runtime, out: Output, selection: Selection, payloads: NewPayloads
) -> None:
    """Write the dead letters that would be redriven, and their new payloads."""
    edited = {letter.ref for letter in selection.letters} & payloads.keys()
    lines = [
        letter_line(letter)
        | ({"new_payload": payloads[letter.ref]} if letter.ref in edited else {})
        for letter in selection.letters
    ]
    out.rows(lines, letter_columns(rt.clock(), all_=False), "")
    if edited:
        out.say(f"{len(edited)} would get a new payload; `-o json` shows each")
    out.say(f"{selection} would be redriven; nothing was changed")


async def redrive_at_once(
    client: Client,
    out: Output,
    selection: Selection,
    reason: str,
    options: RedriveOptions,
) -> int:
    """Redrive all dead letters; write the jobs, and return the exit code."""
    options = replace(options, remark=out.tell)
    done = await client.redrive(selection.letters, reason, options)
    columns = [
        Column("JOB", "job"),
        Column("REDRIVEN", "redriven", right=True),
        Column("GENERATION", "gen", right=True),
    ]
    out.rows([asdict(one) for one in done.jobs], columns, "no dead letter was redriven")
    if done.jobs and out.table:
        out.say(f"next: piecework jobs watch {done.jobs[0].job}")
    return DEAD_LETTERS_LEFT if len(done.jobs) < len(selection.by_job) else OK


async def redrive_in_waves(
    client: Client,
    out: Output,
    selection: Selection,
    reason: str,
    options: RedriveOptions,
) -> int:
    """Redrive in waves; return the exit code.

    Raises:
        WaitTimeoutError: `cli.wait.timeout`.
    """
    ended: list[Document] = []

    def report(result: WaveResult) -> None:
        ended.append(wave_document(len(ended) + 1, result))
        out.say(wave_line(ended[-1]))

    options = replace(options, on_wave=report, remark=out.tell)
    result = await client.redrive(selection.letters, reason, options)
    document = {
        "verdict": str(result.verdict),
        "waves": ended,
        "recurred": recurred_causes(result, selection.letters),
        "remaining": result.remaining,
    }

    def draw(console: Console) -> None:
        print_table(console, ended, COLUMNS)

    out.document(document, draw)
    report_verdict(out, document)
    return exit_code(result)


def wave_document(number: int, result: WaveResult) -> Document:
    """Return the result of a wave as a document."""
    return {
        "wave": number,
        "redriven": result.redriven,
        "succeeded": result.succeeded,
        "died": result.died.total(),
        "cancelled": result.cancelled,
        "fingerprints": dict(result.died),
    }


def wave_line(wave: Document) -> str:
    """Return the result of a wave as a line."""
    return (
        f"wave {wave['wave']}: {wave['redriven']} redriven, {wave['succeeded']} "
        f"succeeded, {wave['died']} died again"
    )


def recurred_causes(
    result: Redriven, letters: Sequence[DeadLetterRow]
) -> list[Document]:
    """Return the redriven causes that killed a chunk again."""
    known = {letter.fingerprint: letter.error_code for letter in letters}
    died = sum((wave.died for wave in result.waves), start=WaveResult().died)
    return [
        {"fingerprint": mark, "error_code": known[mark], "count": count}
        for mark, count in died.items()
        if mark in known
    ]


def report_verdict(out: Output, document: Document) -> None:
    """Write which causes recurred, why it stopped, and how many letters remain."""
    for cause in document["recurred"]:
        code, mark = cause["error_code"], cause["fingerprint"]
        out.say(f"cause recurred: {code}, {cause['count']} times (fingerprint {mark})")
        out.say(f"next: piecework dlq list --fingerprint {mark}")
    if document["verdict"] != Verdict.CONTINUE:
        left = document["remaining"]
        letters = f"{left} dead letter{'s' * (left != 1)}"
        out.say(f"stopped ({document['verdict']}); {letters} not redriven")


def exit_code(result: Redriven) -> int:
    """Return the exit code of a canary redrive."""
    if result.verdict is Verdict.CANCELLED:
        return CANCELLED
    died = any(wave.died for wave in result.waves)
    return DEAD_LETTERS_LEFT if died or result.remaining else OK
