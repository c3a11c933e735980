"""Run the failed compensations of dead letters again, or resolve them by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.moments import iso
from piecework.domain.outcome import CompensationResult
from piecework.domain.refs import JobRef
from piecework.errors import UsageError
from piecework.runtime import Runtime
from piecework.store.checkpoints import read_work
from piecework.store.compensations import (
    UNCOMPENSATED,
    FailedCompensation,
    HandResolution,
    resolve_by_hand,
    stages_left,
)
from piecework.store.dead_letters import Closing
from piecework_orchestrator.dead_letters.closing import (
    Selection,
    redrive_at_once,
    require_reason,
)
from piecework_orchestrator.dead_letters.redrive import (
    NOTHING_LEFT,
    RedriveRequest,
    never_began,
)


class HandOutcome(StrEnum):
    """What an operator found out about the effects that a compensation left."""

    #: The operator undid them. A redrive executes them again.
    COMPENSATED = "compensated"
    #: There are none, or they may remain. A redrive does not execute them again.
    NOT_NEEDED = "not-needed"

    @property
    def result(self) -> CompensationResult:
        """The result of the compensation that the record keeps."""
        return CompensationResult(self.value.replace("-", "_").upper())


def only_uncompensated(letters: Sequence[DeadLetterRow]) -> list[DeadLetterRow]:
    """Return the dead letters whose compensation failed or was abandoned."""
    return [letter for letter in letters if letter.compensation in UNCOMPENSATED]


async def compensate_selected(
    rt: Runtime,
    selection: Selection,
    closing: Closing,
    outcome: HandOutcome | None = None,
    remark: Callable[[str], None] = lambda _: None,
) -> dict[str, int]:
    """Run failed compensations again, or resolve them; return how many of each job.

    Raises:
        UsageError: `cli.reason.missing`; `redrive.selection.empty`;
            `redrive.compensation.unknown`: none can run again; why the last job could
            not be reopened, if no job could.
    """
    require_reason(closing.reason, "compensate", selection)
    selection = Selection(only_uncompensated(selection.letters))
    if not selection.letters:
        message = "None of the dead letters has a failed compensation."
        raise UsageError(message, code=NOTHING_LEFT)
    if outcome is not None:
        return {
            ref.job: await resolve(rt, ref, letters, outcome, closing)
            for ref, letters in selection.by_job.items()
        }
    selection = await leave_out_unbegun(rt, selection, remark)
    requests = [
        RedriveRequest(ref, letters, closing.actor, closing.reason, compensates=True)
        for ref, letters in selection.by_job.items()
    ]
    done = await redrive_at_once(rt, requests, remark)
    return {one.job: one.redriven for one in done}


async def leave_out_unbegun(
    rt: Runtime, selection: Selection, remark: Callable[[str], None]
) -> Selection:
    """Return the letters whose compensation can run again; remark on the others.

    An abandoned compensation may not have begun: the payload could not be read.

    Raises:
        UsageError: `redrive.compensation.unknown`: none can run again.
    """
    kept, error = [], None
    for letter in selection.letters:
        if letter.compensation == CompensationResult.ABANDONED:
            work = await read_work(rt.table, letter.ref)
            if FailedCompensation.read(work, letter.gen) is None:
                error = never_began(letter)
                remark(f"left out: {error.message} {error.next_step}")
                continue
        kept.append(letter)
    if error is not None and not kept:
        raise error
    return Selection(kept)


async def resolve(
    rt: Runtime,
    ref: JobRef,
    letters: Sequence[DeadLetterRow],
    outcome: HandOutcome,
    closing: Closing,
) -> int:
    """Resolve the compensations of a job's dead letters by hand; return how many.

    The dead letters stay open: an operator redrives or discards them next.
    """
    count = 0
    for letter in letters:
        work, at = await read_work(rt.table, letter.ref), iso(rt.clock())
        stages = tuple(stages_left(letter, work))
        abandoned = letter.compensation == CompensationResult.ABANDONED
        compensated = outcome is HandOutcome.COMPENSATED
        first = stages[0] if stages and abandoned and compensated else ""
        statement = HandResolution(outcome.result, stages, closing, at, first)
        count += await resolve_by_hand(
            rt.table, rt.dead_letters, letter, work, statement
        )
    if not count:
        return 0
    event = {
        "actor": closing.actor,
        "reason": closing.reason,
        "outcome": str(outcome),
        "letters": count,
    }
    await rt.jobs.record(ref, "compensation resolved", event)
    return count
