"""`dlq compensate`: run failed compensations again, or resolve them by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from piecework.domain.refs import ChunkRef
from piecework_orchestrator.cli.dlq import left_over, tell_unreadable
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
from piecework_orchestrator.cli.progress import DEAD_LETTERS_LEFT
from piecework_orchestrator.cli.run import confirm, run_client
from piecework_orchestrator.cli.table import Column
from piecework_orchestrator.cli.views.dead_letters import (
    compensation_columns,
    letter_line,
)
from piecework_orchestrator.client import Client
from piecework_orchestrator.dead_letters.closing import (
    leave_out_refused,
    require_reason,
    select_open,
)
from piecework_orchestrator.dead_letters.compensate import (
    HandOutcome,
    leave_out_unbegun,
)
from piecework_orchestrator.reading.selection import Filter


def compensate_letters(  # noqa: PLR0913, PLR0917 -- filters and safeguards, each wanted alone
    job: JobOption = None,
    code: CodeOption = None,
    fingerprint: FingerprintOption = None,
    stage: StageOption = None,
    since: SinceOption = None,
    chunk: ChunkOption = None,
    limit: LimitOption = 0,
    outcome: Annotated[
        HandOutcome | None,
        typer.Option(
            help="Record what you did by hand; nothing runs.",
            show_default="run the compensations again",
        ),
    ] = None,
    reason: ReasonOption = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Run the failed compensations of dead letters again, or resolve them by hand.

    Only the stages whose compensation failed run it again; their answered calls are
    not repeated. The chunk then has a new dead letter, to be redriven or discarded. The
    command skips a job that cannot be reopened now, and a dead letter that cannot be
    read. The exit code is then 5.
    """
    wanted = Filter(job, code, fingerprint, stage, since, chunk, uncompensated=True)

    async def run(client: Client, out: Output) -> int:
        damaged: list[ChunkRef] = []
        selection = await select_open(client.runtime, wanted, damaged, limit)
        if dry_run:
            taken = selection
            if outcome is None:
                taken = await leave_out_unbegun(client.runtime, selection, out.tell)
                taken = await leave_out_refused(client.runtime, taken, out.tell)
            lines = [letter_line(letter) for letter in taken.letters]
            out.rows(lines, compensation_columns(), "")
            word = "resolved" if outcome else "compensated again"
            out.say(f"{taken} would be {word}; nothing was changed")
            return tell_unreadable(out, damaged) or left_over(taken, selection)
        require_reason(reason, "compensate", selection)
        what = f"Record as {outcome}:" if outcome else "Compensate again:"
        await confirm(f"{what} {selection}", out, yes=yes)
        counts = await client.compensate(
            selection.letters, reason, outcome, remark=out.tell
        )
        word = "resolved" if outcome else "compensating"
        done = [{"job": name, word: count} for name, count in counts.items()]
        columns = [Column("JOB", "job"), Column(word.upper(), word, right=True)]
        out.rows(done, columns, "no compensation was changed")
        if out.table and done:
            first = done[0]["job"]
            listed = f"next: piecework dlq list --job {first}"
            out.say(listed if outcome else f"next: piecework jobs watch {first}")
        left = tell_unreadable(out, damaged)
        return DEAD_LETTERS_LEFT if len(done) < len(selection.by_job) else left

    run_client(run, output, before=wanted.check)
