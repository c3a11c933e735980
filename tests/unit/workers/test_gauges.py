"""What a worker's gauges read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from piecework.resilience.breaker import BreakerPhase
from piecework.telemetry.emf import Gauge
from piecework_worker.call_limiter import CallLimiter
from piecework_worker.gauges import UNTRIED_S, gauges

NOW = 10_000.0


def breaker(
    phase: BreakerPhase, open_until: float = NOW + 30, probe_until: float = 0.0
) -> Any:
    state = SimpleNamespace(phase=phase, open_until=open_until, probe_until=probe_until)
    return SimpleNamespace(state=state)


def calls(slots: CallLimiter, **breakers: Any) -> Any:
    known = SimpleNamespace(clock=lambda: NOW, by_name=breakers)
    return SimpleNamespace(slots=slots, breakers=known)


async def test_the_gauges_of_a_worker_count_its_leases_and_calls() -> None:
    slots = CallLimiter(4)
    async with slots:
        pass
    await slots.__aenter__()
    place = calls(
        slots, model=breaker(BreakerPhase.OPEN), shop=breaker(BreakerPhase.CLOSED)
    )

    leases: Any = {"a": 1, "b": 2}
    assert list(gauges(leases, place)) == [
        Gauge("ChunksInProgress", 2),
        Gauge("CallsInFlight", 1),
        Gauge("BreakersOpen", 1),
        Gauge("BreakersOpen", 1, ("Dependency", "model")),
    ]


@pytest.mark.parametrize(
    ("until", "probed_until", "open_"),
    [
        (NOW - UNTRIED_S + 1, 0.0, 1),
        (NOW - UNTRIED_S - 1, 0.0, 0),
        (NOW - UNTRIED_S - 1, NOW + 5, 1),
    ],
)
def test_an_unused_open_breaker_raises_no_alarm(
    until: float, probed_until: float, open_: int
) -> None:
    place = calls(CallLimiter(4), model=breaker(BreakerPhase.OPEN, until, probed_until))

    read = gauges({}, place)
    found = {gauge.name: gauge.value for gauge in read if not any(gauge.part)}
    assert open_ == found["BreakersOpen"]
