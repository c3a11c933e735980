"""What a worker's gauges read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from piecework.breaker import State
from piecework.telemetry.meter import Gauge
from workers.gauges import gauges
from workers.slots import Slots


def known(state: State) -> Any:
    return SimpleNamespace(circuit=SimpleNamespace(state=state))


async def test_the_gauges_of_a_worker_are_what_it_has_in_hand() -> None:
    slots = Slots(4)
    async with slots:
        pass
    await slots.__aenter__()
    station: Any = SimpleNamespace(
        heart=SimpleNamespace(holds={"a": 1, "b": 2}),
        calls=slots,
        circuits=SimpleNamespace(
            known={"model": known(State.OPEN), "shop": known(State.CLOSED)}
        ),
    )

    assert list(gauges(station)) == [
        Gauge("ChunksInHand", 2),
        Gauge("CallsInFlight", 1),
        Gauge("BreakersOpen", 1),
        Gauge("BreakersOpen", 1, "model"),
    ]
