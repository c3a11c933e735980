"""Hand dead letters out again: what that would be, whether it is meant, the act."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from orchestrator.cli.asking import confirm
from orchestrator.cli.letter_views import letter_columns, letter_line
from orchestrator.cli.letters import Filter, Letter, select
from orchestrator.cli.output import Column, Output
from orchestrator.cli.submitting import whoami
from orchestrator.redrive import Redrive, redrive
from piecework.errors import UsageError
from piecework.model import JobRef
from piecework.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Plan:
    """The dead letters to redrive, by job."""

    wanted: Filter
    letters: list[Letter]

    @property
    def by_job(self) -> dict[JobRef, list[Letter]]:
        """The letters of each job."""
        jobs: dict[JobRef, list[Letter]] = defaultdict(list)
        for letter in self.letters:
            jobs[JobRef(letter["tenant"], letter["job"])].append(letter)
        return jobs

    def __str__(self) -> str:
        """Return what the question names."""
        letters, jobs = len(self.letters), len(self.by_job)
        return (
            f"{letters} dead letter{'s' * (letters != 1)} of "
            f"{jobs} job{'s' * (jobs != 1)}"
        )


async def plan(rt: Runtime, wanted: Filter, limit: int) -> Plan:
    """Find the letters to redrive, the oldest first.

    Raises:
        UsageError: `redrive.selection.empty`.
    """
    found = (await select(rt, wanted))[::-1]
    if not found:
        message = "No open dead letter fits."
        only = f" --job {wanted.job}" if wanted.job else ""
        step = f"`piecework dlq list{only}`"
        raise UsageError(message, code="redrive.selection.empty", next_step=step)
    return Plan(wanted, found[:limit] if limit else found)


def show(rt: Runtime, out: Output, planned: Plan) -> None:
    """Write what would be redriven."""
    lines = [letter_line(letter) for letter in planned.letters]
    out.rows(lines, letter_columns(rt.clock(), all_=False), "")
    out.say(f"{planned} would be redriven; nothing was changed")


async def check(planned: Plan, out: Output, reason: str, *, yes: bool) -> None:
    """Refuse a redrive that would leave no trace of why, or that nobody means.

    Raises:
        UsageError: `redrive.reason.missing`; `cli.confirmation.needed`.
    """
    if not reason.strip():
        message = f"Say why {planned} would fare better now."
        step = "Add --reason 'what was fixed'."
        raise UsageError(message, code="redrive.reason.missing", next_step=step)
    await confirm(f"Redrive {planned}", out, yes=yes)


async def carry_out(rt: Runtime, out: Output, planned: Plan, reason: str) -> None:
    """Redrive job by job; one that cannot be is told of, and the others go on.

    Raises:
        PieceworkError: What stood in the way, when nothing could be redriven.
    """
    done = []
    for ref, letters in planned.by_job.items():
        try:
            count, gen = await redrive(rt, Redrive(ref, letters, whoami(), reason))
        except UsageError as error:
            if len(planned.by_job) == 1:
                raise
            out.say(f"left out {ref.job}: {error.code}: {error.message}")
            continue
        done.append({"job": ref.job, "redriven": count, "gen": gen})
    columns = [
        Column("JOB", "job"),
        Column("REDRIVEN", "redriven", right=True),
        Column("GENERATION", "gen", right=True),
    ]
    out.rows(done, columns, "nothing was redriven")
    if done and out.table:
        out.say(f"next: piecework jobs watch {done[0]['job']}")
