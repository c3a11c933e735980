"""Judge a run: what went wrong, in one word.

doubled      an act happened twice, or a pure call was paid again without a reason
skipped      the chunk has succeeded, and an act did not happen
left         the chunk has ended, what it did remains, and nothing names it
silent       it ended otherwise than the row says, and nothing says so
wrong_cause  it stopped or died, but not of what the row says
"""

from __future__ import annotations

from typing import Final

from piecework.domain.outcome import CompensationResult
from piecework.domain.states import ChunkStatus
from verification.deployments.changes import MOMENTS, acts_of
from verification.deployments.drill import End, Run

FAULTS: Final = ("doubled", "skipped", "left", "silent", "wrong_cause")
#: The letter of an end, by the code of a chunk that waits or is dead.
BY_CODE: Final = {
    "runtime.code.changed": "S",
    "runtime.stage.not_found": "G",
    "runtime.effect.unknown": "D",
    "runtime.payload.invalid": "P",
    "runtime.value.unreadable": "V",
}
#: What undoes an act.
UNDONE_BY: Final = {"reserve": "release", "charge": "refund"}
#: The stage of an act that a dead letter may name.
STAGES: Final = {"reserve": "hold", "charge": "pay"}
#: Nothing before the pivot may be undone: a person decides.
SAYS_SO: Final = {CompensationResult.PAST_PIVOT, CompensationResult.PIVOT_UNKNOWN}
REFUSAL: Final = "tool.shop.no"


def end_of(run: Run) -> str:
    """Return the letter of the end of a run; `?`: none of the table."""
    chunk, letter = run.chunk, run.letter
    if chunk is None:
        return "?"
    if chunk.status is ChunkStatus.SUCCEEDED:
        return "O"
    if chunk.status is ChunkStatus.DEAD and letter is not None:
        if letter.error_code == REFUSAL:
            return "L" if letter.uncompensated_stages else "U"
        return BY_CODE.get(letter.error_code, "?")
    if chunk.stage_deferrals:  # a worker may just look at it again
        return BY_CODE.get(chunk.error_code, "?")
    return "N" if "workers.pipeline_missing" in run.findings else "?"


def expected(run: Run) -> str:
    """Return the letters of the ends that a run may have.

    Beside version 2, version 1 may finish a chunk that version 2 must not touch. And it
    finds what version 2 has done, as after a rollback: it stops, too, where that is
    unsafe.
    """
    row, change = run.row, run.row.change
    ends = row.join if run.moment == "join" else row.ends[MOMENTS.index(run.moment)]
    if run.end is not End.STAYS:
        return ends
    # Version 1 goes on from its moment, and version 2 finds the chunk at any later one.
    later = ends
    if run.moment != "join":
        later = row.ends
        later += change.ends if row.is_back else change.back
    return f"{later}OD" if row.kind == "once" else f"{later}O"


def fault_of(run: Run) -> str:
    """Return what is wrong with a run; empty: nothing."""
    found = end_of(run)
    if run.moment != "join":
        if doubled(run):
            return "doubled"
        if found == "O" and skipped(run):
            return "skipped"
        if left(run):
            return "left"
    if found in expected(run):
        return ""
    waits = run.chunk is not None and run.chunk.stage_deferrals > 0
    return "wrong_cause" if run.letter is not None or waits else "silent"


def net(run: Run, act: str) -> int:
    """Return how often an act happened and was not undone."""
    return run.acts[act] - run.acts[UNDONE_BY.get(act, "nothing")]


def doubled(run: Run) -> list[str]:
    """Return the acts that happened twice."""
    change = run.row.change
    acts = [
        act
        for act in ("reserve", "charge", "send", "audit")
        if net(run, act) > 1 and not repeats_itself(run, act)
    ]
    if run.acts["quote"] > 1 and not change.repays:
        acts.append("quote")
    return acts


def repeats_itself(run: Run, act: str) -> bool:
    """Return whether version 1 alone has repeated a call that it declares to be pure.

    It lost the answer of a call in flight, and makes a pure call again. It does so
    without any deployment: version 2 corrects that.
    """
    alone = run.by_version[f"{act}@1"] == run.acts[act]
    in_flight = (act, run.moment) == ("charge", "flight")
    return in_flight and alone and "Effect.PURE" in run.row.before


def skipped(run: Run) -> list[str]:
    """Return the acts that a chunk with success lacks."""
    needed = run.row.needed(run.moment)
    if run.end is End.STAYS:  # either version may have ended it
        needed &= acts_of(run.row.before) & acts_of(run.row.after)
    return sorted(act for act in needed if not run.acts[act])


def left(run: Run) -> list[str]:
    """Return the acts of an ended chunk that remain, and that nothing names."""
    letter = run.letter
    if letter is None or letter.compensation in SAYS_SO:
        return []
    named = letter.uncompensated_stages
    return [
        act
        for act, stage in STAGES.items()
        if net(run, act) > 0 and stage not in named and is_undoable(run, act)
    ]


def is_undoable(run: Run, act: str) -> bool:
    """Return whether a version of the pipeline had a compensation of an act.

    An effect in doubt is left to a person, who finds it in the dead letter.
    """
    undo = {"reserve": "compensate=unhold", "charge": "compensate=unpay"}[act]
    if act == "charge" and end_of(run) == "D":
        return False
    return undo in run.row.before
