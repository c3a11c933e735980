"""What a soak was asked for and has nothing to be judged by: that is no pass."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from verification.soak.plan import Plan
from verification.soak.quiet import Quiet
from verification.soak.record import Ack, Change, Effect, Said
from verification.soak.takeover import Takeover


def unproven(
    plan: Plan,
    met: Mapping[str, int],
    takeovers: Sequence[Takeover],
    quiets: Sequence[Quiet],
) -> Iterator[str]:
    """Yield what was asked for and never came about; `met` are the blows that hit."""
    asked = {"kill": plan.kills, "freeze": plan.freezes, "stop": plan.stops}
    for blow, wanted in asked.items():
        if wanted and not met.get(blow):
            yield f"no {blow} met a worker, of {wanted} that were asked for"
    if plan.kills and not takeovers:
        yield "no chunk of a killed worker was taken over: how soon is not shown"
    if plan.cancels and not any(quiet.in_a_lull for quiet in quiets):
        yield "no job was cancelled in a lull: how soon one is quiet is not shown"


def blind(read: Collection[str]) -> Iterator[str]:
    """Yield, in words, the kinds of records that are missing altogether."""
    for kind in (Change, Effect, Ack, Said):
        if kind.__name__ not in read:
            yield f"there is no {kind.__name__} to judge by"
