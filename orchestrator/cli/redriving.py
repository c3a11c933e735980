"""Hand dead letters out again: how that is asked for, and the act, job by job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.cli.editing import NewPayloads, standing
from orchestrator.cli.letter_views import letter_columns, letter_line
from orchestrator.cli.letters import Letter
from orchestrator.cli.output import Column, Output
from orchestrator.cli.selecting import Plan
from orchestrator.cli.submitting import whoami
from orchestrator.cli.times import parse_limit
from orchestrator.cli.waves import in_waves
from orchestrator.editing import Edit
from orchestrator.redrive import Redrive, redrive
from piecework.errors import NotFoundError, UsageError
from piecework.model import JobRef
from piecework.runtime import Runtime


@dataclass(frozen=True, slots=True)
class How:
    """What was typed beside the filters.

    Attributes:
        canary: How many the first wave has; 0: all go at once.
    """

    reason: str
    edit: Edit | None = None
    rate: float | None = None
    canary: int = 0
    timeout_s: float | None = None

    def redrive(self, ref: JobRef, letters: Sequence[Letter]) -> Redrive:
        """Return the redrive of letters of a job."""
        return Redrive(ref, letters, whoami(), self.reason, self.rate, self.edit)


def read_how(
    reason: str, edit: Edit | None, rate: float | None, canary: int, timeout: str
) -> How:
    """Read what was typed.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    if timeout and not canary:
        message = "--timeout says how long to wait, and there is no --canary."
        raise UsageError(message, next_step="Add --canary K.")
    return How(reason, edit, rate, canary, parse_limit(timeout))


def warn(out: Output, planned: Plan, payloads: NewPayloads) -> None:
    """Say what a new payload does not do, and what it might do twice."""
    if not payloads:
        return
    out.say("stages that are done keep their values; the others see the new payload")
    if count := standing(planned.letters):
        out.say(
            f"warning: {count} of them did something that was not undone, and with a "
            "new payload may do it again: look at `piecework chunks show` first"
        )


def show(rt: Runtime, out: Output, planned: Plan, payloads: NewPayloads) -> None:
    """Write what would be redriven, and as what."""
    lines = [
        letter_line(letter)
        | ({"new_payload": payloads[place]} if place in payloads else {})
        for place, letter in enumerate(planned.letters)
    ]
    out.rows(lines, letter_columns(rt.clock(), all_=False), "")
    if payloads:
        out.say(f"{len(payloads)} would get a new payload; `-o json` shows each")
    out.say(f"{planned} would be redriven; nothing was changed")


async def carry_out(rt: Runtime, out: Output, planned: Plan, how: How) -> int:
    """Redrive what was planned; return the exit code.

    Raises:
        PieceworkError: What stood in the way, when nothing could be redriven.
    """
    if how.canary:
        return await in_waves(rt, out, planned.letters, how)
    done = await all_at_once(rt, out, planned, how)
    columns = [
        Column("JOB", "job"),
        Column("REDRIVEN", "redriven", right=True),
        Column("GENERATION", "gen", right=True),
    ]
    out.rows(done, columns, "nothing was redriven")
    if done and out.table:
        out.say(f"next: piecework jobs watch {done[0]['job']}")
    return 0


async def all_at_once(
    rt: Runtime, out: Output, planned: Plan, how: How
) -> list[dict[str, object]]:
    """Redrive job by job; one that cannot be is told of, and the others go on.

    Raises:
        PieceworkError: Why the last one could not be, where none could.
    """
    done: list[dict[str, object]] = []
    jobs = len(planned.by_job)
    for place, (ref, letters) in enumerate(planned.by_job.items(), 1):
        try:
            count, gen = await redrive(rt, how.redrive(ref, letters))
        except (UsageError, NotFoundError) as error:
            if place == jobs and not done:
                raise
            out.say(f"left out {ref.job}: {error.code}: {error.message}")
            continue
        done.append({"job": ref.job, "redriven": count, "gen": gen})
    return done
