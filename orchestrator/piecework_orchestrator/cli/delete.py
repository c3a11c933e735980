"""`jobs delete`: delete all data of a job that has ended."""

from __future__ import annotations

from piecework.client import Client
from piecework.domain.model import ChunkRef
from piecework_orchestrator.cli.options import (
    Format,
    JobArgument,
    OutputOption,
    ReasonOption,
    YesOption,
)
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.run import confirm, run_client
from piecework_orchestrator.cli.views.jobs import show_facts
from piecework_orchestrator.effects import effects_of_letters
from piecework_orchestrator.job_list import MAX_COUNTED_CHUNKS
from piecework_orchestrator.times import count


def delete_job(
    job: JobArgument,
    reason: ReasonOption = "",
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Delete all data of a job that has ended.

    Record, chunks, payloads, results, dead letters and files go, in all versions. A
    tombstone stays: the certificate's hash, the operator, the reason and the time. The
    id cannot be used again. If the command is interrupted, repeat it.
    """

    async def run(client: Client, out: Output) -> None:
        handle = client.job(job)
        facts = await handle.facts()
        if not facts.status.gone:
            damaged: list[ChunkRef] = []
            ended = facts.ended
            open_ = await handle.dead_letters(unreadable=damaged) if ended else []
            number = len(open_) + len(damaged)
            lost = f", with {count(number, 'open dead letter')}" if number else ""
            if doubtful := await effects_of_letters(handle.rt, open_):
                lost += f" and {count(len(doubtful), 'effect')} in doubt"
            chunks = count(facts.chunks, "chunk")
            what = f"Delete job {job} ({facts.status}, {chunks}{lost})"
            await confirm(f"{what} for good", out, yes=yes)
        if facts.chunks > MAX_COUNTED_CHUNKS:
            out.say("a reconciler continues if this command is interrupted")
        show_facts(out, await handle.delete(reason))

    run_client(run, output)
