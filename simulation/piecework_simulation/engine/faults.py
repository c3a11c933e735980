"""Define the kinds of faults, their rates, and the count of each.

A schedule enables a random subset of the kinds, each at its own rate (swarm testing).
Faults that always occur together hide the effect of each single one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

#: Kinds of faults of a request, each with its usual chance.
REQUESTS: Mapping[str, float] = {
    "request.throttled": 0.02,
    "request.conflict": 0.02,
    "request.server_error": 0.01,
    "request.denied": 0.01,
    "request.unreachable": 0.01,
    "request.reply_lost": 0.03,
    "request.late": 0.01,
    "request.slow": 0.02,
}
#: Faults that a standard queue may show, and a batch of a table. Stale reads are not
#: among them: every read is strongly consistent, and the world enforces it.
AWS: Mapping[str, float] = {
    "sqs.duplicate": 0.05,
    "sqs.reorder": 0.3,
    "sqs.delay": 0.05,
    "sqs.lost": 0.045,
    "sqs.partial": 0.03,
    "sqs.empty": 0.1,
    "sqs.undelete": 0.07,
    "dynamodb.partial": 0.03,
    "dynamodb.hot_partition": 0.01,
}
#: Faults of a pipeline's call to a provider.
CALLS: Mapping[str, float] = {
    "call.transient": 0.08,
    "call.permanent": 0.025,
    "call.hidden": 0.04,
    "call.cut": 0.03,
    "call.slow": 0.03,
    "call.wait_minutes": 0.015,
    "call.wait_hours": 0.015,
}
#: Faults of a call in a cheap lane. They are drawn apart: the other faults of a seed
#: stay what they were.
LANES: Mapping[str, float] = {
    "call.no_room": 0.05,
    "call.no_lane": 0.03,
    "call.other_tier": 0.2,
}
#: Faults of the batches of a provider, and of requests about them; drawn apart, too.
BATCHES: Mapping[str, float] = {
    "batch.late": 0.3,
    "batch.partial": 0.3,
    "batch.expired": 0.3,
    "batch.row_twice": 0.3,
    "batch.row_unknown": 0.3,
    "batch.row_failed": 0.15,
    "batch.create_lost": 0.3,
    "batch.refused": 0.25,
    "batch.gone": 0.15,
    "batch.unreachable": 0.1,
    "batch.denied": 0.04,
}
#: Faults that belong to one input, whatever runs it, and large values. Each rate is a
#: chance per chunk.
INPUTS: Mapping[str, float] = {
    "input.permanent": 0.04,
    "input.transient": 0.04,
    "input.provider": 0.04,
    "input.kill": 0.04,
    "input.block": 0.04,
}
VALUES: Mapping[str, float] = {"value.large": 0.1}
#: Faults of a process; each rate is a chance per callback.
PROCESSES: Mapping[str, float] = {
    "process.kill": 0.0012,
    "process.freeze": 0.002,
}
#: Faults of a whole schedule: wrong clocks, and a service that refuses every request
#: for some seconds. There are also operator commands, and a job of another tenant with
#: the same name.
EVENTS: Mapping[str, float] = {
    "process.stop": 0.5,
    "clock.offset": 0.5,
    "service.denied": 0.3,
    "tenant.second": 0.3,
    "operator.cancel": 0.35,
    "operator.compensate": 0.5,
    "operator.deadline": 0.2,
    "operator.retry": 0.5,
    "operator.redrive": 0.5,
    "operator.pause": 0.4,
    "operator.submit_again": 0.2,
    "operator.limits": 0.3,
}
#: A deployment of another version of a pipeline: its schedules draw it apart.
DEPLOYED = "operator.deploy"
KINDS: Mapping[str, float] = {
    **REQUESTS,
    **AWS,
    **CALLS,
    **LANES,
    **BATCHES,
    **INPUTS,
    **VALUES,
    **PROCESSES,
    **EVENTS,
}


def swarm(rng: Random) -> dict[str, float]:
    """Draw which kinds are on, and at which rate."""
    apart = Random()
    apart.setstate(rng.getstate())
    later = {**LANES, **BATCHES}
    usual = {kind: rate for kind, rate in KINDS.items() if kind not in later}
    return {**drawn(usual, rng), **drawn(LANES, apart), **drawn(BATCHES, apart)}


def drawn(kinds: Mapping[str, float], rng: Random) -> dict[str, float]:
    """Draw which of these kinds are on, and at which rate."""
    on = {k: r for k, r in kinds.items() if rng.random() < 0.5}  # noqa: PLR2004
    return {k: min(1.0, r * rng.choice((0.5, 1.0, 1.0, 3.0))) for k, r in on.items()}


@dataclass(slots=True)
class Faults:
    """The faults of one schedule.

    Attributes:
        on: False in the last phase, in which every job must end.
        denied: The services that refuse every request, faults on or off.
    """

    rates: Mapping[str, float]
    rng: Random
    on: bool = True
    denied: set[str] = field(default_factory=set)
    fired: Counter[str] = field(default_factory=Counter)
    _requests: list[tuple[str, float]] = field(init=False)

    def __post_init__(self) -> None:
        """Lay the kinds of a request out, so that one draw decides on all of them."""
        self._requests = [(k, self.rates[k]) for k in REQUESTS if k in self.rates]

    def fires(self, kind: str, rng: Random | None = None) -> bool:
        """Return whether a fault of a kind happens now, and count it.

        `rng`: a generator of its own; None: that of the schedule.
        """
        happens = self.draws(kind, rng)
        self.fired[kind] += happens
        return happens

    def draws(self, kind: str, rng: Random | None = None) -> bool:
        """Return whether a fault of a kind is drawn; no draw if its rate is zero."""
        rate = self.rates.get(kind)
        return rate is not None and self.on and (rng or self.rng).random() < rate

    def draw_for_request(self) -> str | None:
        """Return the fault of a request, if any."""
        if not self.on or not self._requests:
            return None
        drawn = self.rng.random()
        for kind, rate in self._requests:
            if drawn < rate:
                self.fired[kind] += 1
                return kind
            drawn -= rate
        return None
