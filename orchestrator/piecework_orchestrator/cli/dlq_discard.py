"""`dlq discard`: discard dead letters."""

from __future__ import annotations

from piecework.domain.refs import ChunkRef
from piecework_orchestrator.cli.dlq import tell_unreadable
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
from piecework_orchestrator.cli.run import confirm, run_client
from piecework_orchestrator.cli.table import Column
from piecework_orchestrator.cli.views.dead_letters import letter_columns, letter_line
from piecework_orchestrator.client import Client
from piecework_orchestrator.dead_letters.closing import require_reason, select_open
from piecework_orchestrator.reading.selection import Filter


def discard_letters(  # noqa: PLR0913, PLR0917 -- filters and safeguards, each wanted alone
    job: JobOption = None,
    code: CodeOption = None,
    fingerprint: FingerprintOption = None,
    stage: StageOption = None,
    since: SinceOption = None,
    chunk: ChunkOption = None,
    limit: LimitOption = 0,
    reason: ReasonOption = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Discard dead letters: their chunks stay dead.

    Later redrives and retries leave these chunks out. A dead letter that cannot be read
    is skipped, and the exit code is 5.
    """
    wanted = Filter(job, code, fingerprint, stage, since, chunk)

    async def run(client: Client, out: Output) -> int:
        damaged: list[ChunkRef] = []
        selection = await select_open(client.runtime, wanted, damaged, limit)
        if dry_run:
            lines = [letter_line(letter) for letter in selection.letters]
            out.rows(lines, letter_columns(client.runtime.clock(), all_=False), "")
            out.say(f"{selection} would be discarded; nothing was changed")
            return tell_unreadable(out, damaged)
        require_reason(reason, "discard", selection)
        await confirm(f"Discard {selection}", out, yes=yes)
        counts = await client.discard(selection.letters, reason)
        done = [{"job": name, "discarded": count} for name, count in counts.items()]
        columns = [Column("JOB", "job"), Column("DISCARDED", "discarded", right=True)]
        out.rows(done, columns, "no dead letter was discarded")
        if out.table:
            out.say(f"next: piecework dlq list --job {done[0]['job']} --all")
        return tell_unreadable(out, damaged)

    run_client(run, output, before=wanted.check)
