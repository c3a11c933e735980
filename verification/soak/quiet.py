"""How soon a cancelled job is quiet, and which calls ended after that was asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from verification.soak.record import Change, Effect
from verification.soak.world import NOTHING


@dataclass(frozen=True, slots=True)
class Quiet:
    """A cancel.

    Attributes:
        seconds: From CANCELLING to CANCELLED; infinite if it never came.
        calls: Calls of the job that the outside carried out in between.
        in_a_lull: Whether nothing else went wrong just then.
    """

    job: str
    asked: float
    seconds: float = float("inf")
    calls: int = 0
    in_a_lull: bool = False


def quiets(
    changes: Iterable[Change],
    effects: Iterable[Effect],
    lulls: Sequence[tuple[float, float]] = (),
) -> list[Quiet]:
    """Return how every cancel went; `lulls` are those times in which no fault is."""
    found: list[Quiet] = []
    open_ones: dict[str, Quiet] = {}
    for change in changes:
        if change.kind != "META":
            continue
        status = (change.new or NOTHING).get("status")
        if status == "CANCELLING":
            lull = any(began <= change.at <= ended for began, ended in lulls)
            quiet = Quiet(change.job, change.at, in_a_lull=lull)
            open_ones.setdefault(change.job, quiet)
        elif status == "CANCELLED" and change.job in open_ones:
            asked = open_ones.pop(change.job)
            found.append(replace(asked, seconds=change.at - asked.asked))
    found += open_ones.values()
    effects = list(effects)
    return [replace(quiet, calls=calls_after(quiet, effects)) for quiet in found]


def calls_after(quiet: Quiet, effects: Iterable[Effect]) -> int:
    """Count the calls of the job that ended while it was being cancelled."""
    until = quiet.asked + quiet.seconds
    return sum(
        effect.job == quiet.job and quiet.asked < effect.at <= until
        for effect in effects
    )
