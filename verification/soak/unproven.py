"""What a soak was asked for, but did not show: such a soak does not pass."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from verification.soak.cancels import Cancel
from verification.soak.plan import Plan
from verification.soak.record import Ack, Change, Effect, LogEvent
from verification.soak.takeover import Takeover


def unproven(
    plan: Plan,
    hit: Mapping[str, int],
    takeovers: Sequence[Takeover],
    cancels: Sequence[Cancel],
) -> Iterator[str]:
    """Yield what was asked for and never happened; `hit` counts the hits."""
    asked = {"kill": plan.kills, "freeze": plan.freezes, "stop": plan.stops}
    for name, wanted in asked.items():
        if wanted and not hit.get(name):
            yield f"no {name} hit a worker, of {wanted} that were asked for"
    if plan.kills and all(takeover.throttled for takeover in takeovers):
        yield "no chunk of a killed worker was taken over: how soon is not shown"
    if plan.cancels and not any(cancel.without_faults for cancel in cancels):
        yield "no job was cancelled without faults: how soon one quiesces is not shown"


def blind(read: Collection[str]) -> Iterator[str]:
    """Yield, in words, the kinds of records that are missing altogether."""
    for kind in (Change, Effect, Ack, LogEvent):
        if kind.__name__ not in read:
            yield f"there is no record of the kind {kind.__name__}"
