"""Redrive the selected dead letters, job by job or in waves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.cli.editing import NewPayloads, count_not_compensated
from orchestrator.cli.letter_views import letter_columns, letter_line
from orchestrator.cli.letters import Letter
from orchestrator.cli.output import Column, Output
from orchestrator.cli.selecting import Plan
from orchestrator.cli.submitting import whoami
from orchestrator.cli.times import parse_limit
from orchestrator.cli.waves import redrive_in_waves
from orchestrator.editing import Edit
from orchestrator.redrive import RedriveRequest, redrive
from piecework.errors import NotFoundError, UsageError
from piecework.model import JobRef
from piecework.runtime import Runtime


@dataclass(frozen=True, slots=True)
class RedriveOptions:
    """The options of `dlq redrive` other than its filters.

    Attributes:
        canary: The size of the first wave; 0: redrive all at once.
    """

    reason: str
    edit: Edit | None = None
    rate: float | None = None
    canary: int = 0
    timeout_s: float | None = None

    def request(self, ref: JobRef, letters: Sequence[Letter]) -> RedriveRequest:
        """Return the redrive of dead letters of a job."""
        return RedriveRequest(ref, letters, whoami(), self.reason, self.rate, self.edit)


def read_options(
    reason: str, edit: Edit | None, rate: float | None, canary: int, timeout: str
) -> RedriveOptions:
    """Return the options if they fit together.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    if timeout and not canary:
        message = "--timeout is valid only with --canary."
        raise UsageError(message, next_step="Add --canary K.")
    return RedriveOptions(reason, edit, rate, canary, parse_limit(timeout))


def warn_of_edit(out: Output, plan: Plan, payloads: NewPayloads) -> None:
    """Write what a new payload does not change, and which effects it may repeat."""
    if not payloads:
        return
    out.say("completed stages keep their results; the other stages get the new payload")
    if count := count_not_compensated(plan.letters):
        out.say(
            f"warning: {count} of them have effects that were not compensated, and a "
            "new payload may repeat these; check `piecework chunks show` first"
        )


def show_redrive(rt: Runtime, out: Output, plan: Plan, payloads: NewPayloads) -> None:
    """Write the dead letters that would be redriven, and their new payloads."""
    lines = [
        letter_line(letter)
        | ({"new_payload": payloads[position]} if position in payloads else {})
        for position, letter in enumerate(plan.letters)
    ]
    out.rows(lines, letter_columns(rt.clock(), all_=False), "")
    if payloads:
        out.say(f"{len(payloads)} would get a new payload; `-o json` shows each")
    out.say(f"{plan} would be redriven; nothing was changed")


async def redrive_plan(
    rt: Runtime, out: Output, plan: Plan, options: RedriveOptions
) -> int:
    """Redrive the planned dead letters; return the exit code.

    Raises:
        PieceworkError: Why the last job could not be redriven, if no job could.
    """
    if options.canary:
        return await redrive_in_waves(rt, out, plan.letters, options)
    done = await redrive_at_once(rt, out, plan, options)
    columns = [
        Column("JOB", "job"),
        Column("REDRIVEN", "redriven", right=True),
        Column("GENERATION", "gen", right=True),
    ]
    out.rows(done, columns, "no dead letter was redriven")
    if done and out.table:
        out.say(f"next: piecework jobs watch {done[0]['job']}")
    return 0


async def redrive_at_once(
    rt: Runtime, out: Output, plan: Plan, options: RedriveOptions
) -> list[dict[str, object]]:
    """Redrive job by job; report a job that cannot be redriven, and continue.

    Raises:
        PieceworkError: Why the last job could not be redriven, if no job could.
    """
    done: list[dict[str, object]] = []
    jobs = len(plan.by_job)
    for number, (ref, letters) in enumerate(plan.by_job.items(), 1):
        try:
            count, gen = await redrive(rt, options.request(ref, letters))
        except (UsageError, NotFoundError) as error:
            if number == jobs and not done:
                raise
            out.say(f"job {ref.job} is skipped: {error.code}: {error.message}")
            continue
        done.append({"job": ref.job, "redriven": count, "gen": gen})
    return done
