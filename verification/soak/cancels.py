"""How soon a cancelled job has quiesced, and which calls ended after the request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from verification.soak.record import Change, Effect
from verification.soak.world import NOTHING


@dataclass(frozen=True, slots=True)
class Cancel:
    """A cancel.

    Attributes:
        seconds: From CANCELLING to CANCELLED; infinite if it never came.
        calls: Calls of the job that the outside carried out in between.
        without_faults: Whether no other fault happened at that time.
    """

    job: str
    asked: float
    seconds: float = float("inf")
    calls: int = 0
    without_faults: bool = False


def cancels(
    changes: Iterable[Change],
    effects: Iterable[Effect],
    calm: Sequence[tuple[float, float]] = (),
) -> list[Cancel]:
    """Return how every cancel went; `calm` are the times without other faults."""
    found: list[Cancel] = []
    open_ones: dict[str, Cancel] = {}
    for change in changes:
        if change.kind != "META":
            continue
        status = (change.new or NOTHING).get("status")
        if status == "CANCELLING":
            undisturbed = any(a <= change.at <= b for a, b in calm)
            cancel = Cancel(change.job, change.at, without_faults=undisturbed)
            open_ones.setdefault(change.job, cancel)
        elif status == "CANCELLED" and change.job in open_ones:
            asked = open_ones.pop(change.job)
            found.append(replace(asked, seconds=change.at - asked.asked))
    found += open_ones.values()
    effects = list(effects)
    return [replace(cancel, calls=calls_after(cancel, effects)) for cancel in found]


def calls_after(cancel: Cancel, effects: Iterable[Effect]) -> int:
    """Count the calls of the job that ended while it was being cancelled."""
    until = cancel.asked + cancel.seconds
    return sum(
        effect.job == cancel.job and cancel.asked < effect.at <= until
        for effect in effects
    )
