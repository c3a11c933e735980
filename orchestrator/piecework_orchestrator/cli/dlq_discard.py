"""`dlq discard`, and the plan of the dead letters that a command closes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.model import JobRef
from piecework.errors import UsageError
from piecework.runtime import Runtime
from piecework.store.dead_letters import Closing
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
from piecework_orchestrator.cli.output import Column, Output
from piecework_orchestrator.cli.run import confirm, run_connected
from piecework_orchestrator.cli.views.dead_letters import letter_columns, letter_line
from piecework_orchestrator.identity import whoami
from piecework_orchestrator.redrive import discard
from piecework_orchestrator.selection import Filter, select


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

    Later redrives and retries leave these chunks out.
    """

    async def run(rt: Runtime, out: Output) -> None:
        wanted = Filter(job, code, fingerprint, stage, since, chunk)
        plan = await make_plan(rt, wanted, limit)
        if dry_run:
            show_plan(rt, out, plan, "discarded")
            return
        await confirm_plan(plan, out, "Discard", reason, yes=yes)
        await discard_plan(rt, out, plan, reason)

    run_connected(run, output)


async def discard_plan(rt: Runtime, out: Output, plan: Plan, reason: str) -> None:
    """Discard the planned dead letters; those closed meanwhile are skipped."""
    closing = Closing(whoami(), reason)
    done = [
        {"job": ref.job, "discarded": await discard(rt, ref, letters, closing)}
        for ref, letters in plan.by_job.items()
    ]
    columns = [Column("JOB", "job"), Column("DISCARDED", "discarded", right=True)]
    out.rows(done, columns, "no dead letter was discarded")
    if out.table:
        out.say(f"next: piecework dlq list --job {done[0]['job']} --all")


@dataclass(frozen=True, slots=True)
class Plan:
    """The dead letters to close."""

    letters: list[DeadLetterRow]

    @property
    def by_job(self) -> dict[JobRef, list[DeadLetterRow]]:
        """The dead letters of each job."""
        jobs: dict[JobRef, list[DeadLetterRow]] = defaultdict(list)
        for letter in self.letters:
            jobs[letter.job].append(letter)
        return jobs

    def __str__(self) -> str:
        """Return the number of dead letters and jobs, in words."""
        letters, jobs = len(self.letters), len(self.by_job)
        return (
            f"{letters} dead letter{'s' * (letters != 1)} of "
            f"{jobs} job{'s' * (jobs != 1)}"
        )


async def make_plan(rt: Runtime, wanted: Filter, limit: int) -> Plan:
    """Find the dead letters to close, the oldest first; 0 selects all.

    Raises:
        UsageError: `redrive.selection.empty`.
    """
    found = (await select(rt, wanted))[::-1]
    if not found:
        message = "No open dead letter matches the filters."
        only = f" --job {wanted.job}" if wanted.job else ""
        step = f"`piecework dlq list{only}`"
        raise UsageError(message, code="redrive.selection.empty", next_step=step)
    return Plan(found[:limit] if limit else found)


def show_plan(rt: Runtime, out: Output, plan: Plan, done: str) -> None:
    """Write the dead letters that would be closed."""
    lines = [letter_line(letter) for letter in plan.letters]
    out.rows(lines, letter_columns(rt.clock(), all_=False), "")
    out.say(f"{plan} would be {done}; nothing was changed")


async def confirm_plan(
    plan: Plan, out: Output, verb: str, reason: str, *, yes: bool
) -> None:
    """Require a reason, then a confirmation.

    Raises:
        UsageError: `redrive.reason.missing`; `cli.confirmation.needed`.
    """
    if not reason.strip():
        message = f"`--reason` is required to {verb.lower()} {plan}."
        step = "Add --reason 'what was fixed, or why they are discarded'."
        raise UsageError(message, code="redrive.reason.missing", next_step=step)
    await confirm(f"{verb} {plan}", out, yes=yes)
