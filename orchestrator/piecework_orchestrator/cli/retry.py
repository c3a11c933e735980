"""`jobs retry`: process the chunks without a result again."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from piecework.domain.refs import ChunkRef
from piecework.errors import UsageError
from piecework_orchestrator.cli.again import (
    FromOption,
    RepeatOption,
    make_again,
    show_again,
)
from piecework_orchestrator.cli.dlq import tell_unreadable
from piecework_orchestrator.cli.options import (
    DeadlineOption,
    Format,
    JobArgument,
    OutputOption,
    ReasonOption,
)
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.progress import OK, show_steps
from piecework_orchestrator.cli.run import confirm, run_client
from piecework_orchestrator.cli.views.jobs import show_facts
from piecework_orchestrator.client import Client
from piecework_orchestrator.operate.run_again import chunks_to_retry
from piecework_orchestrator.reading.job_documents import require_job
from piecework_orchestrator.reading.times import count, parse_deadline


def retry_job(
    job: JobArgument,
    reason: ReasonOption = "",
    deadline: DeadlineOption = "",
    from_: FromOption = "",
    repeat_effects: RepeatOption = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="With --from: show what would be repeated, change nothing.",
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask: only --from does.")
    ] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Retry a job that ended PARTIAL, FAILED or CANCELLED.

    A SUCCEEDED job can be retried, too, if it tolerated failures. Every chunk without a
    result is processed again from its checkpoint. Discarded chunks stay dead. A future
    deadline stays in force unless --deadline replaces it; a deadline that has passed is
    removed. If the command is interrupted, repeat it with the same reason. A chunk
    whose dead letter cannot be read stays dead: the exit code is 5.

    With --from, completed stages run again, too. The command shows what they did, and
    refuses to let it happen twice without --repeat-effects.
    """

    def check() -> None:
        if deadline:
            parse_deadline(deadline, time.time())
        again = make_again(from_, "", "", repeats=repeat_effects)
        if dry_run and again is None:
            message = "--dry-run is valid only with --from."
            raise UsageError(message, next_step="Add --from STAGE.")

    async def run(client: Client, out: Output) -> int:
        handle, damaged = client.job(job), list[ChunkRef]()
        again = make_again(from_, "", "", repeats=repeat_effects)
        if again is not None:
            record = await require_job(handle.rt, job)
            chunks = chunks_to_retry(handle.rt, record)
            found = await show_again(handle.rt, out, chunks, again, dry=dry_run)
            if dry_run and found is not None:
                if not out.table:
                    out.document(found.document, lambda _: None)
                if record.ref in found.errors:
                    raise found.errors[record.ref]
                return OK
            await confirm(f"Retry {job} from stage {from_}", out, yes=yes)
        with show_steps(out) as progress:
            reopened = await handle.retry(
                reason,
                deadline or None,
                again=again,
                unreadable=damaged,
                on_progress=progress,
            )
        facts = await handle.facts()
        told = (
            f"{count(reopened, 'chunk')} reopened" if reopened else "the job ends again"
        )
        out.say(f"{told} in generation {facts.gen}")
        show_facts(out, facts)
        return tell_unreadable(out, damaged)

    run_client(run, output, before=check)
