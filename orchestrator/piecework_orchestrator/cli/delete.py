"""`jobs delete`: delete all data of a job that has ended."""

from __future__ import annotations

from piecework.domain.states import JobStatus
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
from piecework_orchestrator.client import Client
from piecework_orchestrator.cost.job import deletion_terms
from piecework_orchestrator.operate.deletion import lost_letters, require_reason
from piecework_orchestrator.reading.job_list import MAX_COUNTED_CHUNKS
from piecework_orchestrator.reading.times import count


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
            lost = await lost_letters(handle.rt, job) if facts.ended else ""
            record = await handle.rt.jobs.read(handle.ref)
            if record is not None and record.status.ended:
                out.say(f"this {await deletion_terms(handle.rt, record)}")
            what = f"{count(facts.chunks, 'chunk')}{lost and f', with {lost}'}"
            what = f"Delete job {job} ({facts.status}, {what})"
            await confirm(f"{what} for good", out, yes=yes)
        if facts.chunks > MAX_COUNTED_CHUNKS and facts.status is not JobStatus.DELETED:
            out.say("a reconciler continues if this command is interrupted")
        stone = await handle.delete(reason)
        show_facts(out, stone)
        first = stone.document["deletion"]
        if first["delete_reason"] != reason:
            told = f"{first['deleted_by']}: {first['delete_reason']}"
            out.say(f"the tombstone keeps who deleted it first, and why: {told}")

    # Before the question: an answered question must not be followed by another one.
    run_client(run, output, before=lambda: require_reason(job, reason))
